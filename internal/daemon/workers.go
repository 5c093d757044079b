package daemon

import (
	"context"
	"sync"
)

// maxWorkers bounds the slow calls of one kind under way at once. Each CRI update
// forks the OCI runtime, so more would only make the node's own work wait.
const maxWorkers = 8

// workers runs slow calls (runtime, D-Bus, disk) away from the owner. Jobs of
// one key run one after another, in the order in which they were submitted;
// each result is posted to the owner's mailbox.
type workers struct {
	ctx   context.Context //nolint:containedctx // the pool lives exactly as long as the loop that made it
	post  func(event)
	slots chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex // guards queues
	queues map[string][]job
}

// job is a slow call; its result is an event, or nil for none.
type job func(ctx context.Context) event

// crew are the workers by what they wait for, so that hundreds of seals, or a
// runtime that takes no more of them, keep neither a new container's details nor
// the journal waiting.
type crew struct {
	asks  *workers // questions
	seals *workers // changes by the runtime and systemd
	disk  *workers
}

func newCrew(ctx context.Context, post func(event)) crew {
	return crew{asks: newWorkers(ctx, post), seals: newWorkers(ctx, post), disk: newWorkers(ctx, post)}
}

// wait returns when all jobs have ended; the context must have been cancelled.
func (c crew) wait() {
	for _, w := range []*workers{c.asks, c.seals, c.disk} {
		w.wait()
	}
}

func newWorkers(ctx context.Context, post func(event)) *workers {
	return &workers{
		ctx:    ctx,
		post:   post,
		slots:  make(chan struct{}, maxWorkers),
		queues: make(map[string][]job),
	}
}

// submit queues a job and returns at once. After the end of the context no job begins.
func (w *workers) submit(key string, j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	q, running := w.queues[key]
	w.queues[key] = append(q, j)
	if !running {
		w.wg.Go(func() { w.drain(key) })
	}
}

// drain runs the jobs of one key until there are none.
func (w *workers) drain(key string) {
	for {
		w.mu.Lock()
		q := w.queues[key]
		if len(q) == 0 {
			delete(w.queues, key)
			w.mu.Unlock()
			return
		}
		j := q[0]
		w.queues[key] = q[1:]
		w.mu.Unlock()

		select {
		case w.slots <- struct{}{}:
		case <-w.ctx.Done():
		}
		// None begins after the end, not even by chance: it may rely on one before it
		// that was given up.
		if w.ctx.Err() != nil {
			return
		}
		result := j(w.ctx)
		<-w.slots
		if result != nil {
			w.post(result)
		}
	}
}

// wait returns when all jobs have ended; the context must have been cancelled.
func (w *workers) wait() { w.wg.Wait() }
