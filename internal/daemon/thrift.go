package daemon

import (
	"context"
	"runtime/debug"
)

// restfulLooks is after how many looks at all cgroups, with nothing between them, memory is
// given back again: every other minute with the default resyncPeriod, where Go would
// collect garbage anyway.
const restfulLooks = 4

// thrift gives memory that nothing lives in back to the kernel while nothing happens: what a
// start or a busy hour has taken would stay else (docs/performance.md).
type thrift struct {
	giveBack func()
	passes   uint64 // whole ones until the last look was over
	restful  int    // looks since then with no other pass before them
	looked   bool   // the pass that is made now is a look
}

func newThrift() thrift { return thrift{giveBack: debug.FreeOSMemory} }

// look notes that the pass that is made now looks at all cgroups.
func (t *thrift) look(passes uint64) {
	t.looked = true
	if passes != t.passes {
		t.restful = 0
		return
	}
	t.restful++
}

// over notes the end of a pass, and says whether memory is to be given back.
func (t *thrift) over(passes uint64) bool {
	if !t.looked {
		return false
	}
	t.looked, t.passes = false, passes
	return t.restful%restfulLooks == 1
}

// saveMemory gives memory back after a pass, if that is due. A collection takes milliseconds:
// the owner does not wait for it.
func (l *loop) saveMemory() {
	if !l.thrift.over(l.wholePasses()) {
		return
	}
	giveBack := l.thrift.giveBack
	l.asks.submit("memory", func(context.Context) event {
		giveBack()
		return nil
	})
}

// wholePasses is how many there have been.
func (l *loop) wholePasses() (n uint64) {
	for _, count := range l.status.passes {
		n += count
	}
	return n
}
