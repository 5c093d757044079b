package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// resizeTime is longer than the daemon assumes a resize that the runtime does not show.
const resizeTime = 6 * time.Second

// TestResizeThatFails checks a resize that the runtime does not make after the daemon's reply.
// The container has its recorded size again, and the CPUs are free. The resync is far away.
func TestResizeThatFails(t *testing.T) {
	n := newNodeWith(t, testnode.RuntimeConfig{NRI: true})
	r := n.start()
	r.connected()
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(app, "4-5")
	r.quiet()
	for _, wrong := range []int{3, 4} {
		n.Runtime.Fail(testnode.OCIUpdate, errors.New("no such device"))
		for range 3 { // the kubelet tries again
			if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(wrong)); err == nil {
				t.Fatal("the resize has not failed")
			}
		}
		n.Runtime.Fail(testnode.OCIUpdate, nil)
		r.within(resizeTime, "the resize taken back", func() bool {
			has := r.size(app)
			return has.Requested.Shares == nodefixture.WholeCPUs(2).Shares && has.Total.Shares == 0 &&
				n.State(app).CPUs.Len() == 2 && n.RecordedCPUs(app) == n.State(app).CPUs.String()
		})
		r.quiet()
	}
	late := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("the CPUs given to another", func() bool {
		return n.State(late).Effective.Union(n.State(app).Effective).Equal(cpuset.Range(4, 7))
	})
	n.CheckOccupants()
	// A resize that succeeds is kept, and leads to no more questions.
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(1)); err != nil {
		t.Fatal(err)
	}
	r.within(resizeTime, "the runtime asked", func() bool { return !r.isResizing() })
	if got := r.size(app).Requested.Shares; got != nodefixture.WholeCPUs(1).Shares {
		t.Errorf("after a resize that was made the container asks for %d shares; want %d", got, nodefixture.WholeCPUs(1).Shares)
	}
}

// TestResizeWithoutAnswer checks a resize whose request the runtime has cancelled: it counts
// only after the runtime shows that it has made the update.
func TestResizeWithoutAnswer(t *testing.T) {
	n := newNode(t)
	r := n.start()
	app := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(app, "4-5")
	r.quiet()
	asker := make(chan struct{})
	close(asker)
	r.loop.box.Post(updateRequest{app, nodefixture.WholeCPUs(3), waits.Ask[cri.Resources](asker)})
	if got := r.size(app).Requested.Shares; got != nodefixture.WholeCPUs(2).Shares {
		t.Errorf("without an answer the container asks for %d shares; want %d", got, nodefixture.WholeCPUs(2).Shares)
	}
	if err := n.Runtime.Resize(app, nodefixture.WholeCPUs(3)); err != nil {
		t.Fatal(err)
	}
	r.within(resizeTime, "the resize shown by the record", func() bool { return n.State(app).Effective.String() == "4-6" })
}

func (r *running) size(id string) (s inventory.Size) {
	r.inspect(func(l *Loop) { s = l.inventory.Objects().Container(id).Size() })
	return s
}

// isResizing reports whether the record of a resize is read again.
func (r *running) isResizing() (is bool) {
	r.inspect(func(l *Loop) { l.resizes.Next(func(time.Time) { is = true }) })
	return is
}
