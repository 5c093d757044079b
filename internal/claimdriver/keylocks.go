package claimdriver

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// keyLocks serialise the calls for one claim. Calls for other claims do not wait.
type keyLocks struct {
	mu   sync.Mutex
	held map[types.UID]chan struct{} // closed by the holder
}

// lock waits until no other call holds the lock of a claim, or ctx ends.
func (l *keyLocks) lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
	for {
		l.mu.Lock()
		busy, taken := l.held[uid]
		if !taken {
			if l.held == nil {
				l.held = make(map[types.UID]chan struct{})
			}
			released := make(chan struct{})
			l.held[uid] = released
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, uid)
				close(released)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
