package daemon

import (
	"bytes"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
)

// intrude writes to a cgroup, and waits until it is as planned again: the notice of the
// write does that, and no look at everything.
func (w *world) intrude(x scenario.Write) error {
	w.r.loop.box.Post(noReload{}) // each is a case of its own, and no fight
	name := string(x.Path.Join(x.File))
	was, err := w.Tree.ReadFile(name, 1<<10)
	if err != nil {
		return err
	}
	if err := w.Tree.Write(name, x.Value); err != nil {
		return err
	}
	w.mu.Lock()
	armed := w.armed >= 0
	w.mu.Unlock()
	if armed {
		return nil // who dies over it finds it when it starts
	}
	return w.await(fmt.Sprintf("%s to be %q again, after %q", name, bytes.TrimSpace(was), x.Value), func() bool {
		is, err := w.Tree.ReadFile(name, 1<<10)
		return err == nil && bytes.Equal(is, was)
	})
}
