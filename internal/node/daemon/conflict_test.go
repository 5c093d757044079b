package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// overwrite overwrites a file of a container's cgroup after each repair, until the daemon stops its
// repairs.
func (r *running) overwrite(n *node, id, file, theirs, ours string) {
	r.T.Helper()
	value := func() string {
		st := n.State(id)
		if file == cgroup.FileWeight {
			return fmt.Sprint(st.Weight)
		}
		return st.CPUs.String()
	}
	r.view(file+" contested", func(v *telemetry.View) bool {
		contested := v.Problems[string(retry.CodeContested)] == 1
		if !contested && value() == ours {
			n.WriteFile(id, file, theirs)
		}
		return contested
	})
	n.AwaitFile(n.Runtime.Cgroup(id), file, theirs)
}

// TestContest checks that repeated external writes pause repairs and are a problem. During the
// pause, a container leaves CPUs of an owner or of another pool after at most a second.
func TestContest(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(owner, "4-5")
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	contested := func(v *telemetry.View) bool { return v.Problems[string(retry.CodeContested)] == 1 }
	for range retry.MaxRepairs {
		n.WriteFile(id, cgroup.FileCPUs, "3")
		n.AwaitCPUs(id, "2-3")
		if contested(r.loop.publisher.Metrics()) {
			t.Fatal("contested too early")
		}
	}
	n.WriteFile(id, cgroup.FileCPUs, "3")
	r.view("contested", contested)
	if got := n.State(id).CPUs.String(); got != "3" {
		t.Errorf("a contested cgroup is written: it has %s; want 3", got)
	}
	// A container that causes a conflict cannot make the node faulty.
	r.view("no fault and no open external write", func(v *telemetry.View) bool { return v.Faulty == 0 && v.Open == 0 && contested(v) })
	for _, outside := range []string{"3-4", "0-3", "1", "7", "0-7"} {
		n.WriteFile(id, cgroup.FileCPUs, outside)
		r.within(time.Second, "off CPUs "+outside, func() bool { return n.State(id).Effective.IsSubsetOf(cpuset.Of(2, 3)) })
	}
	n.CheckOccupants()
}

// TestTornRead checks a read during an external write, with the new request and the old CPUs.
// The notice of the write leads to another read; without it the container would stay on the
// wrong CPUs.
func TestTornRead(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "a", nodefixture.WholeCPUs(0))
	n.AwaitCPUs(id, "2-3")
	r.settled()
	p := cgroup.Path(n.Runtime.Cgroup(id))
	r.inspect(func(l *Loop) {
		torn := l.cache.Current(p).State
		torn.Effective = cpuset.Of(3)
		l.cache.NoteReading(torn)
		written := []cgroup.Change{{Kind: cgroup.Written, Path: p, Name: cgroup.FileCPUs, At: l.now()}}
		if len(l.notices.Handle(written, nil).Repairs) != 1 || !l.cache.Current(p).Effective.Equal(cpuset.Range(2, 3)) {
			t.Errorf("after the notice it is taken to run on %s", l.cache.Current(p).Effective)
		}
		if len(l.notices.Handle(written, nil).Repairs) != 0 {
			t.Error("a notice that tells nothing new matters")
		}
	})
}

// TestContestOfOneProperty checks that repeated external writes to one property of a cgroup
// pause the repairs of that property alone.
func TestContestOfOneProperty(t *testing.T) {
	for _, test := range []struct{ file, theirs, ours, other, value, want string }{
		{cgroup.FileWeight, "1000", "59", cgroup.FileCPUs, "2", "0-1"},
		// With the weight systemd would write the old CPUs again, so it does not get the
		// weight.
		{cgroup.FileCPUs, "1", "0-1", cgroup.FileWeight, "1000", "59"},
	} {
		t.Run(test.file, func(t *testing.T) {
			n := driftNode(t)
			r := n.start()
			id := n.RunContainer(n.RunPod("a", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"a": 512})), "a", nodefixture.WholeCPUs(1))
			n.AwaitCPUs(id, "0-1")
			n.AwaitFile(n.Runtime.Cgroup(id), cgroup.FileWeight, "59")
			r.settled()
			r.overwrite(n, id, test.file, test.theirs, test.ours)
			counted := telemetry.Drift{Cause: telemetry.CauseUnknown, Property: test.other}
			before := r.loop.publisher.Metrics().Drifts[counted]
			n.WriteFile(id, test.other, test.value)
			n.AwaitFile(n.Runtime.Cgroup(id), test.other, test.want)
			r.view("the other is counted", func(v *telemetry.View) bool { return v.Drifts[counted] == before+1 })
			n.AwaitFile(n.Runtime.Cgroup(id), test.file, test.theirs)
		})
	}
}
