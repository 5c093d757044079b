package publish

import (
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Count counts a write, and adds it to the log and to the history.
func (p *Publisher) Count(w cgroup.Write, err error) {
	p.counts.AddWrite(w, err)
	p.history.AddWrite(p.Objects, w, err)
	switch {
	case err == nil:
		p.Log.Info("wrote", "write", w)
	case hostenv.IsGone(err):
		p.Log.Info("gone before the write", "write", w, "error", err)
	default:
		p.Log.Error("write refused", "write", w, "error", err)
	}
}

// Omit takes the writes that a pass has omitted (mode: observe), and logs each of them once.
func (p *Publisher) Omit(writes []cgroup.Write) {
	owed := make(map[cgroup.Write]bool, len(writes))
	for _, w := range writes {
		if owed[w] = true; !p.unwritten[w] {
			p.Log.Info("would write", "write", w)
		}
	}
	for w := range p.unwritten {
		if !owed[w] {
			p.Log.Info("would no longer write", "write", w)
		}
	}
	p.unwritten = owed
}

// unwrittenCounts returns the number of omitted writes by way, or nil outside mode: observe.
func (p *Publisher) unwrittenCounts() map[string]int {
	if !p.Host.Observes {
		return nil
	}
	counts := map[string]int{string(cgroup.File): 0, string(cgroup.CRI): 0, string(cgroup.DBus): 0}
	for w := range p.unwritten {
		counts[string(w.Via)]++
	}
	return counts
}
