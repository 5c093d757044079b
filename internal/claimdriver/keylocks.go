package claimdriver

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// keyLocks serialise the calls for one claim. Calls for other claims do not wait. The holder of a lock
// closes its channel.
type keyLocks struct{ held sync.Map }

// lock waits until no other call holds the lock of a claim, or ctx ends.
func (l *keyLocks) lock(ctx context.Context, uid types.UID) (unlock func(), err error) {
	released := make(chan struct{})
	for {
		busy, taken := l.held.LoadOrStore(uid, released)
		if !taken {
			return func() { l.held.Delete(uid); close(released) }, nil
		}
		select {
		case <-busy.(chan struct{}):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
