package actor

import (
	"context"
	"sync"
	"time"
)

// maxWorkers bounds the jobs of one queue: each CRI update starts the OCI runtime.
const maxWorkers = 8

// Job is a slow call with an event as the result; the zero value of E is not posted.
type Job[E comparable] func(ctx context.Context) E

// Workers accept jobs. Jobs of one key run in their order. Submit returns at once.
type Workers[E comparable] interface {
	Submit(key string, j Job[E])
}

// WorkerSets are the workers by the system that their jobs wait for. A runtime that
// accepts no more changes must delay neither the details of a new container nor the
// journal, so each set has its own goroutines.
type WorkerSets[E comparable] struct {
	Queries Workers[E] // questions to the runtime, systemd and the kubelet
	Updates Workers[E] // changes by the runtime and by systemd
	Disk    Workers[E] // files
}

// NewWorkerSets returns workers that run jobs in goroutines until ctx ends, and post the
// results. After the end of ctx no job begins. Wait returns when all jobs have ended, or after
// maxWait: a file system that does not answer must not delay the end of the daemon.
func NewWorkerSets[E comparable](ctx context.Context, post func(E)) (sets WorkerSets[E], wait func()) {
	var all [3]*workers[E]
	for i := range all {
		all[i] = &workers[E]{ctx: ctx, post: post, slots: make(chan struct{}, maxWorkers), queued: make(map[string][]Job[E])}
	}
	return WorkerSets[E]{Queries: all[0], Updates: all[1], Disk: all[2]}, func() {
		ended := make(chan struct{})
		go func() {
			for _, w := range all {
				w.wg.Wait()
			}
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(maxWait):
		}
	}
}

// maxWait is the maximum time for which the end of the daemon waits for its jobs. The kubelet
// kills the daemon after 10 s (terminationGracePeriodSeconds of the DaemonSet), systemd after 30 s.
const maxWait = 5 * time.Second

type workers[E comparable] struct {
	ctx   context.Context //nolint:containedctx // the workers live as long as the loop that made them
	post  func(E)
	slots chan struct{}
	wg    sync.WaitGroup

	mu     sync.Mutex // guards queued
	queued map[string][]Job[E]
}

func (w *workers[E]) Submit(key string, j Job[E]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	q, running := w.queued[key]
	w.queued[key] = append(q, j)
	if !running {
		w.wg.Go(func() { w.drain(key) })
	}
}

// drain runs the jobs of one key until none is left.
func (w *workers[E]) drain(key string) {
	for {
		w.mu.Lock()
		q := w.queued[key]
		if len(q) == 0 {
			delete(w.queued, key)
			w.mu.Unlock()
			return
		}
		j := q[0]
		w.queued[key] = q[1:]
		w.mu.Unlock()

		select {
		case w.slots <- struct{}{}:
		case <-w.ctx.Done():
		}
		// A job may rely on the job before it, which may have been cancelled: none
		// begins after the end, also where select chose the free slot.
		if w.ctx.Err() != nil {
			return
		}
		result := j(w.ctx)
		<-w.slots
		var none E
		if result != none {
			w.post(result)
		}
	}
}
