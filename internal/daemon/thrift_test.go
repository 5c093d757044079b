package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestThrift: memory is given back when a look has been the only pass since the one before,
// again after some such looks, and not on a node that is busy.
func TestThrift(t *testing.T) {
	const look = 'L' // else an event
	tests := []struct{ what, given string }{
		{"L", "."},
		{"LL", ".x"},
		{"LLLLLLL", ".x...x."},
		{"LeLeLeL", "......."},
		{"LLeLL", ".x..x"},
		{"eeLLLeLL", "...x...x"},
	}
	for _, tt := range tests {
		var th thrift
		passes := uint64(1) // of the start
		got := ""
		for _, pass := range tt.what {
			if pass == look {
				th.look(passes)
			}
			passes++
			if th.over(passes) {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != tt.given {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.given)
		}
	}
}

// TestGiveBack: a node at rest gives memory back after its looks, a busy one does not.
func TestGiveBack(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	r.rests()
	given := make(chan struct{}, 8)
	r.inspect(func(l *loop) { l.thrift.giveBack = func() { given <- struct{}{} } })
	r.rests()
	r.looks()
	r.rests()
	n.container(n.pod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	r.quiet()
	r.rests()
	r.looks()
	if len(given) > 0 {
		t.Error("memory was given back though something had happened")
	}
	r.eventually("memory is given back", func() bool {
		r.looks()
		return len(given) > 0
	})
}

// looks has the daemon look at all cgroups, as the resync does.
func (r *running) looks() {
	r.t.Helper()
	before := r.passes()
	r.loop.box.post(resync{})
	r.view("resync", func(*telemetry.View) bool { return r.passes() > before })
}

// passes is how many whole passes have been published.
func (r *running) passes() (n uint64) {
	for _, count := range r.loop.snapshot.Load().Passes {
		n += count
	}
	return n
}
