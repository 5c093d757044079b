package poolspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func TestAdapt(t *testing.T) {
	tests := []struct {
		name, topology, spec string
		want                 pools.Pools
		says                 []string
	}{
		{
			name: "fits", topology: "cores=4", spec: "guaranteed 2-3",
			want: pools.Pools{Shared: cpuset.Range(0, 1), Guaranteed: cpuset.Range(2, 3)},
		},
		{
			name: "half the CPUs", topology: "cores=4", spec: "management 0 ns\nother 6-7\nshared 1-5\nguaranteed 2,8-15 bind-memory=true\nunit a.service 2\nunit b.service other",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0), Namespaces: []string{"ns"}}},
				Shared:     cpuset.Range(1, 3), BindMemory: true,
				Units: []pools.UnitSpec{{Name: "a.service", CPUs: 2}, {Name: "b.service", Pool: "shared"}},
			},
			says: []string{
				`partitions[1].cpus: "6-7": the machine has no CPU 6-7; it has 0-3; the others count`,
				`partitions[1].cpus: "6-7": none of these CPUs is there and online; the pool is empty`,
				`shared.cpus: "1-5": the machine has no CPU 4-5; it has 0-3; the others count`,
				`guaranteed.cpus: "2,8-15": the machine has no CPU 8-15; it has 0-3; the others count`,
				`guaranteed.cpus: "2,8-15": CPU 2 is in another pool too, and counts there`,
				`guaranteed.cpus: "2,8-15": other pools have all of these CPUs that are online; the pool is empty`,
				`partitions: "other": has no CPU on this machine; its pods are placed like any others`,
				`units.b.service.pool: "other": there is no such pool; write shared or the type of a partition`,
				`units: "2": units request 2 CPUs, and the guaranteed pool has 0; enlarge the pool, or request fewer`,
			},
		},
		{
			name: "shared has the unnamed CPUs", topology: "cores=4", spec: "management 0\nshared 8\nguaranteed 2-3",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0)}}, Shared: cpuset.Of(1), Guaranteed: cpuset.Range(2, 3),
			},
			says: []string{
				`shared.cpus: "8": the machine has no CPU 8; it has 0-3; the others count`,
				`shared.cpus: "8": none of these CPUs is there and online; the pool is empty`,
			},
		},
		{
			name: "shared joins the partitions", topology: "cores=4", spec: "management 0\nguaranteed 1-5",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0)}}, Shared: cpuset.Of(0), Guaranteed: cpuset.Range(1, 3),
			},
			says: []string{
				`guaranteed.cpus: "1-5": the machine has no CPU 4-5; it has 0-3; the others count`,
				`shared.cpus: "": the other pools leave no online CPU of 0-3; it runs on CPU 0 together with the partitions`,
			},
		},
		{
			name: "shared takes from guaranteed", topology: "cores=4", spec: "management all\nguaranteed 0-5",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(3)}}, Shared: cpuset.Of(3), Guaranteed: cpuset.Range(0, 2),
			},
			says: []string{
				`guaranteed.cpus: "0-5": the machine has no CPU 4-5; it has 0-3; the others count`,
				`shared.cpus: "": the other pools leave no online CPU of 0-3; it gets CPU 3 of guaranteed.cpus`,
			},
		},
		{
			name: "one CPU", topology: "cores=1", spec: "management 0\nall all\nguaranteed shared floor=2\nunit u.service management",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "all", CPUs: cpuset.Of(0)}, {Type: "management", CPUs: cpuset.Of(0)}},
				Shared:     cpuset.Of(0), FromShared: true, Floor: 1,
				Units: []pools.UnitSpec{{Name: "u.service", Pool: "management"}},
			},
			says: []string{
				`shared.cpus: "": the other pools leave no online CPU of 0; it runs on CPU 0 together with the partitions`,
				`guaranteed.floor: "2": the shared pool has 1 CPU; it keeps 1`,
				`guaranteed.from: "shared": the partitions have all CPUs, and theirs never become exclusive; leave some to the shared pool`,
			},
		},
		{
			name: "offline", topology: "cores=4 offline=3", spec: "management 3\nguaranteed 2",
			want: pools.Pools{Shared: cpuset.Range(0, 1), Guaranteed: cpuset.Of(2), Offline: cpuset.Of(3)},
			says: []string{
				`partitions[0].cpus: "3": none of these CPUs is there and online; the pool is empty`,
				`partitions: "management": has no CPU on this machine; its pods are placed like any others`,
			},
		},
		{
			name: "a floor above the machine", topology: "cores=4", spec: "management 0\nguaranteed shared floor=8",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0)}},
				Shared:     cpuset.Range(1, 3), Guaranteed: cpuset.Range(1, 3), FromShared: true, Floor: 1,
			},
			says: []string{`guaranteed.floor: "8": the shared pool has 3 CPUs; it keeps 1`},
		},
		{
			name: "the number in the file", topology: "cores=4", spec: "management 0\nmanagement 3\nother 2,7\nguaranteed 1",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0)}, {Type: "other", CPUs: cpuset.Of(2)}},
				Shared:     cpuset.Of(3), Guaranteed: cpuset.Of(1),
			},
			says: []string{
				`partitions[1].type: "management": partitions[0] has this type too; give each type one partition`,
				`partitions[2].cpus: "2,7": the machine has no CPU 7; it has 0-3; the others count`,
			},
		},
		{
			name: "partitions take everything", topology: "cores=4", spec: "management 0-5\nreservation loose\nguaranteed shared",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 3)}},
				Shared:     cpuset.Range(0, 3), FromShared: true,
			},
			says: []string{
				`partitions[0].cpus: "0-5": the machine has no CPU 4-5; it has 0-3; the others count`,
				`guaranteed.from: "shared": the partitions have all CPUs, and theirs never become exclusive; leave some to the shared pool`,
			},
		},
		{name: "no CPU", topology: "cores=1 offline=0", says: []string{"no CPU is online"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := must(pooltext.Parse(tt.spec))(t)
			got, errs := spec.Adapt(must(hardware.Parse(tt.topology))(t).Topology())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("pools: -want +got\n%s", diff)
			}
			var says []string
			for _, err := range errs {
				says = append(says, err.Error())
			}
			if diff := cmp.Diff(tt.says, says); diff != "" {
				t.Errorf("errors: -want +got\n%s", diff)
			}
		})
	}
}
