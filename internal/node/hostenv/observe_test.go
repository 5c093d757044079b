package hostenv_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestObservingHostCannotWrite checks that the observing host refuses each write.
func TestObservingHostCannotWrite(t *testing.T) {
	n := nodefixture.New(t, nodefixture.Spec{})
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	before := n.Settings()
	h := n.Host().Observing()
	p := cgroup.Path(n.Runtime.Cgroup(id))
	for name, err := range map[string]error{
		"file":          h.Cgroups.Write(p, cgroup.FileCPUs, "1"),
		"apply":         h.Cgroups.Apply(cgroup.Write{Path: p, Via: cgroup.File, Property: cgroup.FileWeight, Value: "7"}),
		"parking":       h.Cgroups.MakeParking(),
		"remove":        h.Cgroups.RemoveParking(),
		"CPUs":          h.Runtime.UpdateCPUs(t.Context(), id, cpuset.Of(1)),
		"mems":          h.Runtime.UpdateMems(t.Context(), id, cpuset.Of(1)),
		"stop":          h.Runtime.Stop(t.Context(), id, 0),
		"apply to unit": h.Units.Apply(t.Context(), cgroup.Write{Path: p, Via: cgroup.DBus, Property: cgroup.UnitCPUs, Value: "1"}),
		"revert":        h.Units.Revert(t.Context(), p.Base(), nil, cpuset.Set{}),
	} {
		if !errors.Is(err, (&hostenv.Host{Observes: true}).Writable()) && !errors.Is(err, cgroup.ErrReadOnly) {
			t.Errorf("%s: %v; want a refusal", name, err)
		}
	}
	if found, err := h.Cgroups.Gather(p); err != nil || found.Back != 0 {
		t.Errorf("threads: %+v, %v", found, err)
	}
	if after := n.Settings(); !maps.Equal(before, after) || !n.IsRunning(id) {
		t.Errorf("files were %v, and are %v", before, after)
	}
}
