package daemon

import (
	"context"
	"runtime/debug"
	"time"
)

// thriftPeriod is how often memory is given back: after two looks of resyncPeriod's default. Go
// itself would wait for as much garbage as lives, or two minutes.
const thriftPeriod = time.Minute

// thrift gives memory that nothing lives in back to the kernel: what a start or a busy hour
// has taken would stay else (docs/performance.md).
type thrift struct {
	giveBack func()
	last     time.Time
	looked   bool // the pass that is made now looks at all cgroups
}

func newThrift() thrift { return thrift{giveBack: debug.FreeOSMemory} }

// due says, after a pass, that memory is to be given back: after a look, which leaves most behind.
func (t *thrift) due(now time.Time) bool {
	looked := t.looked
	t.looked = false
	if !looked || now.Sub(t.last) < thriftPeriod {
		return false
	}
	t.last = now
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
