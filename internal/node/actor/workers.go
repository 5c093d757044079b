package actor

import (
	"context"
	"sync"
)

// MaxWorkers bounds the slow calls of one kind under way at once. Each CRI update
// forks the OCI runtime, so more would only make the node's own work wait.
const MaxWorkers = 8

// Workers runs slow calls (runtime, D-Bus, disk) away from the owner. Jobs of
// one key run one after another, in the order in which they were submitted;
// each result is posted to the owner's mailbox.
type Workers struct {
	ctx   context.Context //nolint:containedctx // the pool lives exactly as long as the loop that made it
	post  func(Event)
	slots chan struct{}
	wg    sync.WaitGroup

	Mu     sync.Mutex // guards queues
	Queues map[string][]Job
}

// Job is a slow call; its result is an event, or nil for none.
type Job func(ctx context.Context) Event

// WorkerSets are the workers by what they wait for, so that hundreds of seals, or a
// runtime that takes no more of them, keep neither a new container's details nor
// the journal waiting.
type WorkerSets struct {
	Asks  *Workers // questions
	Seals *Workers // changes by the runtime and systemd
	Disk  *Workers
}

func NewWorkerSets(ctx context.Context, post func(Event)) WorkerSets {
	return WorkerSets{Asks: NewWorkers(ctx, post), Seals: NewWorkers(ctx, post), Disk: NewWorkers(ctx, post)}
}

// Wait returns when all jobs have ended; the context must have been cancelled.
func (c WorkerSets) Wait() {
	for _, w := range []*Workers{c.Asks, c.Seals, c.Disk} {
		w.Wait()
	}
}

func NewWorkers(ctx context.Context, post func(Event)) *Workers {
	return &Workers{
		ctx:    ctx,
		post:   post,
		slots:  make(chan struct{}, MaxWorkers),
		Queues: make(map[string][]Job),
	}
}

// Submit queues a job and returns at once. After the end of the context no job begins.
func (w *Workers) Submit(key string, j Job) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	q, running := w.Queues[key]
	w.Queues[key] = append(q, j)
	if !running {
		w.wg.Go(func() { w.drain(key) })
	}
}

// drain runs the jobs of one key until there are none.
func (w *Workers) drain(key string) {
	for {
		w.Mu.Lock()
		q := w.Queues[key]
		if len(q) == 0 {
			delete(w.Queues, key)
			w.Mu.Unlock()
			return
		}
		j := q[0]
		w.Queues[key] = q[1:]
		w.Mu.Unlock()

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

// Wait returns when all jobs have ended; the context must have been cancelled.
func (w *Workers) Wait() { w.wg.Wait() }
