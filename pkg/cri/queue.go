package cri

import "sync"

// queue is an unbounded queue between the goroutine that reads the runtime's
// stream and the one that runs the caller's code. It is unbounded because
// containerd since 2.0 makes every CreateContainer and StartContainer of the
// node wait for its slowest subscriber. Queued values are small.
type queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond // on mu
	items  []T
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.filled.L = &q.mu
	return q
}

// put appends an item. It never waits for the reader.
func (q *queue[T]) put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	q.filled.Signal()
}

// close makes take return no items after the last one.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}

// take waits for items and returns all that there are, or none after close.
func (q *queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	items := q.items
	q.items = nil
	return items
}
