package daemon

import (
	"context"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// innerOf gives a container the cgroup that crun makes below its scope, with
// settings of its own.
func (n *node) innerOf(id, cpus, quota string) cgroup.Path {
	n.t.Helper()
	inner := cgroup.Path(n.runtime.Cgroup(id)).Join("container")
	n.tree.MkdirAll(string(inner))
	for file, value := range map[string]string{"cpuset.cpus": cpus, "cpu.max": quota} {
		if err := n.tree.Write(string(inner)+"/"+file, value); err != nil {
			n.t.Fatal(err)
		}
	}
	return inner
}

// TestInnerCgroup: what crun keeps below a scope is written, too, with its own
// originals, and the loop comes to rest.
func TestInnerCgroup(t *testing.T) {
	n := newNode(t)
	excl := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.innerOf(excl, "0-7", "200000 100000")
	n.innerOf(shared, "0-7", "max 100000")
	before := n.dump()
	r := n.start()
	n.runsOn(excl, "4-5")
	n.runsOn(shared, "2-3")
	r.quiet()
	for id, cpus := range map[string]string{excl: "4-5", shared: "2-3"} {
		if st := n.state(id).Inner; st == nil || st.CPUs.String() != cpus || st.Quota != -1 {
			t.Errorf("inner cgroup of %s = %+v; want CPUs %s and no quota", n.runtime.Cgroup(id), st, cpus)
		}
	}
	// The inner cgroup alone is changed by somebody else.
	if err := n.tree.Write(string(inner)+"/cpuset.cpus", "4"); err != nil {
		t.Fatal(err)
	}
	r.quiet()
	if got := n.state(excl).Inner.CPUs.String(); got != "4-5" {
		t.Errorf("inner cgroup is on %s; want 4-5 again", got)
	}
	r.stop()
	h := n.host()
	report, err := restore.HostRestore(&h, context.Background(), n.journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Differs {
		if !d.Harmless {
			t.Errorf("%s %s is %q, was %q: %s\n%s", d.Path, d.File, d.Now, d.Value, d.Reason, before)
		}
	}
	if st := n.state(excl).Inner; st.CPUs.String() != "0-7" || st.Quota != 200000 {
		t.Errorf("inner cgroup after restore = %+v", st)
	}
}

// TestInnerCgroupRefuses: a refusal below the scope is tried again later, and
// holds up nobody.
func TestInnerCgroupRefuses(t *testing.T) {
	n := newNode(t)
	bad := n.container(n.pod("bad", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.innerOf(bad, "0-7", "max 100000")
	good := n.container(n.pod("good", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == string(inner)+"/cpuset.cpus" {
			return syscall.EBUSY
		}
		return nil
	})
	r := n.start()
	n.runsOn(good, "2-3")
	r.view("failure counted", func(v *telemetry.View) bool {
		return v.Writes[telemetry.Write{Via: "file", Result: telemetry.Failed}] > 0
	})
	n.tree.Intercept(nil)
	n.runsOn(bad, "2-3")
	r.quiet()
}
