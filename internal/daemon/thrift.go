package daemon

import (
	"context"
	"runtime/debug"
	"time"
)

// Memory is given back after the first look that is so long after the start, and so long after
// it was given back last: with resyncPeriod's default the second of all, and then each third. Go
// itself would wait for as much garbage as lives, or two minutes.
const (
	firstThrift  = 20 * time.Second
	thriftPeriod = 80 * time.Second
)

// thrift gives memory that nothing lives in back to the kernel: what a start or a busy hour
// has taken would stay else (docs/performance.md).
type thrift struct {
	giveBack func()
	next     time.Time // not before
	looked   bool      // the pass that is made now looks at all cgroups
}

func newThrift(started time.Time) thrift {
	return thrift{giveBack: debug.FreeOSMemory, next: started.Add(firstThrift)}
}

// due says, after a pass, that memory is to be given back: after a look, which leaves most behind.
func (t *thrift) due(now time.Time) bool {
	looked := t.looked
	t.looked = false
	if !looked || now.Before(t.next) {
		return false
	}
	t.next = now.Add(thriftPeriod)
	return true
}

// saveMemory gives memory back after a pass, if that is due. A collection takes milliseconds:
// the owner does not wait for it.
func (l *loop) saveMemory(now time.Time) {
	if !l.thrift.due(now) {
		return
	}
	giveBack := l.thrift.giveBack
	l.asks.submit("memory", func(context.Context) event {
		giveBack()
		return nil
	})
}
