package daemon

import (
	"bytes"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
)

// writeExternally writes to a cgroup and waits for the repair, to which the notice of the write leads
// without a full scan.
func (w *world) writeExternally(x scenario.Write) error {
	w.r.forgetDrift()
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
		return nil // the next daemon finds the write
	}
	return w.await(fmt.Sprintf("%s to be %q again, after %q", name, bytes.TrimSpace(was), x.Value), func() bool {
		is, err := w.Tree.ReadFile(name, 1<<10)
		return err == nil && bytes.Equal(is, was)
	})
}
