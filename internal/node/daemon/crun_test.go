package daemon

import (
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestInnerCgroup checks that the cgroup which crun keeps below a scope is written with its own
// originals, and that the loop comes to an end.
func TestInnerCgroup(t *testing.T) {
	n := newNode(t)
	excl := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.MakeInnerCgroup(excl, "0-7", "200000 100000")
	n.MakeInnerCgroup(shared, "0-7", "max 100000")
	before := n.Dump()
	r := n.start()
	n.AwaitCPUs(excl, "4-5")
	n.AwaitCPUs(shared, "2-3")
	r.quiet()
	for id, cpus := range map[string]string{excl: "4-5", shared: "2-3"} {
		if st := n.State(id).Inner; st == nil || st.CPUs.String() != cpus || st.Quota != -1 {
			t.Errorf("inner cgroup of %s = %+v; want CPUs %s and no quota", n.Runtime.Cgroup(id), st, cpus)
		}
	}
	// Another process changes the inner cgroup alone.
	if err := n.Tree.Write(string(inner)+"/cpuset.cpus", "4"); err != nil {
		t.Fatal(err)
	}
	r.quiet()
	if got := n.State(excl).Inner.CPUs.String(); got != "4-5" {
		t.Errorf("inner cgroup is on %s; want 4-5 again", got)
	}
	r.stop()
	report, err := n.restore()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s is %q, was %q: %s\n%s", d.Path, d.File, d.Now, d.Value, d.Reason, before)
		}
	}
	if st := n.State(excl).Inner; st.CPUs.String() != "0-7" || st.Quota != 200000 {
		t.Errorf("inner cgroup after restore = %+v", st)
	}
}

// TestInnerCgroupRefuses checks that a refused write below the scope is repeated later, and
// delays no other write.
func TestInnerCgroupRefuses(t *testing.T) {
	n := newNode(t)
	bad := n.RunContainer(n.RunPod("bad", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.MakeInnerCgroup(bad, "0-7", "max 100000")
	good := n.RunContainer(n.RunPod("good", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == string(inner)+"/cpuset.cpus" {
			return syscall.EBUSY
		}
		return nil
	})
	r := n.start()
	n.AwaitCPUs(good, "2-3")
	r.view("failure counted", func(v *telemetry.View) bool {
		return v.Writes[telemetry.Write{Via: "file", Result: telemetry.Failed}] > 0
	})
	n.Tree.Intercept(nil)
	r.within(time.Second, "the refused write repeated", func() bool { return n.State(bad).Effective.String() == "2-3" })
	r.quiet()
}
