package poolspec_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestOn checks which CPUs a partition with Auto gets in addition to other lists. The sizes for each
// machine are in internal/config, TestShippedPools.
func TestOn(t *testing.T) {
	for _, tt := range []struct{ name, machine, spec, want string }{
		{"no CPU of other lists", "cores=8", "a 0-1\nm auto\nguaranteed 2,4-7\nmixed 3 *", ""},
		{"less than a core is left", "cores=4 threads=2", "m auto\nguaranteed 1-7", ""},
		{"parts of cores", "cores=4 threads=2", "m auto\nguaranteed 4-7", "0-1"},
		{"the whole core that is left", "cores=4 threads=2", "m auto\nguaranteed 0-2", "3,7"},
		{"all that a list of the shared pool leaves", "cores=4", "m auto\nshared 1-3", "0"},
		{"one CPU", "cores=1", "m auto", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := must(pooltext.Parse(tt.spec))(t)
			top := must(hardware.Parse(tt.machine))(t).Topology()
			on := spec.On(top)
			i := len(on.Partitions) - 1
			if got := on.Partitions[i].CPUs.String(); got != tt.want {
				t.Errorf("CPUs are %s; want %s", got, tt.want)
			}
			if !spec.Partitions[i].CPUs.IsEmpty() {
				t.Error("On changed its receiver; want no change")
			}
		})
	}
}

// TestOnTwice checks that a second partition with Auto has other CPUs, and that CPUs that go
// offline later change neither.
func TestOnTwice(t *testing.T) {
	spec := must(pooltext.Parse("m auto\ninfra auto\nguaranteed shared"))(t)
	m := must(hardware.Parse("cores=8 threads=2"))(t)
	on := spec.On(m.Topology())
	m.Offline = cpuset.Of(0, 8)
	p, err := on.Resolve(m.Topology())
	if err == nil {
		t.Errorf("Resolve of %v = no error; want one without an online CPU", p.Partitions)
	}
	m.Offline = cpuset.Of(8)
	p, err = on.Resolve(m.Topology())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Partitions[0].CPUs.String() + " " + p.Partitions[1].CPUs.String() + " " + p.Shared.String(); got != "1,9 0 2-7,10-15" {
		t.Errorf("infra, m and shared are %s; want 1,9 0 2-7,10-15", got)
	}
}

// TestOnNode checks that CPUs come from one NUMA node where the kernel numbers nodes in turn.
func TestOnNode(t *testing.T) {
	all := cpuset.Range(0, 7)
	top := &topology.Topology{Present: all, Online: all}
	for id := range 8 {
		top.CPUs = append(top.CPUs, topology.CPU{ID: id, Core: id, Node: id % 2})
		top.Cores = append(top.Cores, topology.Group{ID: id, CPUs: cpuset.Of(id)})
	}
	spec := poolspec.Spec{Partitions: []poolspec.Partition{{Type: "m", Auto: true}}}
	if got := spec.On(top).Partitions[0].CPUs.String(); got != "0,2" {
		t.Errorf("CPUs are %s; want 0,2", got)
	}
}

// TestAutoWithoutCPUs checks the errors of a machine or lists that leave no CPU.
func TestAutoWithoutCPUs(t *testing.T) {
	spec := must(pooltext.Parse("m auto\nguaranteed shared floor=10%"))(t)
	top := must(hardware.Parse("cores=1"))(t).Topology()
	const want = `partitions[0].cpus: "auto": the other pools leave no online CPU of 0 for it; take some from them`
	if _, err := spec.Resolve(top); err == nil || err.Error() != want {
		t.Errorf("Resolve = %v; want %s", err, want)
	}
	p, errs := spec.Adapt(top)
	if len(errs) != 1 || len(p.Partitions) > 0 || p.Shared.String() != "0" {
		t.Errorf("Adapt = %v, %v; want one error, no partition and CPU 0", p, errs)
	}
}
