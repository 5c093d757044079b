package poolspec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

func TestResolve(t *testing.T) {
	tests := []struct {
		name, topology, spec string
		want                 pools.Pools
	}{
		{
			name: "all given", topology: "cores=8", spec: "management 0-1 kube-system\nshared 2-3\nguaranteed 4-7",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1), Namespaces: []string{"kube-system"}}},
				Shared:     cpuset.Range(2, 3), Guaranteed: cpuset.Range(4, 7),
			},
		},
		{
			name: "from shared", topology: "cores=8 offline=7", spec: "management 0-1\nall all\nguaranteed shared floor=2 full-pcpus-only=true\nunit b.service 2\nunit a.slice all",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "all", CPUs: cpuset.Range(0, 6)}, {Type: "management", CPUs: cpuset.Range(0, 1)}},
				Shared:     cpuset.Range(2, 6), Guaranteed: cpuset.Range(2, 6), FromShared: true, Floor: 2,
				Options: allocate.Options{FullPCPUsOnly: true},
				Units:   []pools.UnitSpec{{Name: "a.slice", Pool: "all"}, {Name: "b.service", CPUs: 2}}, Away: cpuset.Of(7),
			},
		},
		{
			name: "from a list, reservation is loose", topology: "cores=8", spec: "management 0-1\nshared 2-5\nguaranteed shared\nreservation loose",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1)}},
				Shared:     cpuset.Range(0, 5), Guaranteed: cpuset.Range(2, 5), FromShared: true,
			},
		},
		{
			name: "units may wait for offline CPUs", topology: "cores=8 offline=6-7", spec: "guaranteed 4-7\nunit a.service 4",
			want: pools.Pools{
				Shared: cpuset.Range(0, 3), Guaranteed: cpuset.Range(4, 5), Offline: cpuset.Range(6, 7), Away: cpuset.Range(6, 7),
				Units: []pools.UnitSpec{{Name: "a.service", CPUs: 4}},
			},
		},
		{name: "nothing given", topology: "cores=4", want: pools.Pools{Shared: cpuset.Range(0, 3)}},
		{
			name: "shared has the rest, types are sorted", topology: "cores=8", spec: "b 0\na 2\nguaranteed 6-7",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "a", CPUs: cpuset.Of(2)}, {Type: "b", CPUs: cpuset.Of(0)}},
				Shared:     cpuset.Of(1, 3, 4, 5), Guaranteed: cpuset.Range(6, 7),
			},
		},
		{
			name: "all is everything but guaranteed", topology: "cores=8", spec: "m 0-1\nn all\nshared rest\nguaranteed 6-7",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "m", CPUs: cpuset.Range(0, 1)}, {Type: "n", CPUs: cpuset.Range(0, 5)}},
				Shared:     cpuset.Range(2, 5), Guaranteed: cpuset.Range(6, 7),
			},
		},
		{
			name: "offline CPUs are left out", topology: "cores=8 offline=1,3,7", spec: "m 0-1\nshared 2-3\nguaranteed 4-7",
			want: pools.Pools{
				Partitions: []pools.Partition{{Type: "m", CPUs: cpuset.Of(0)}},
				Shared:     cpuset.Of(2), Guaranteed: cpuset.Range(4, 6), Offline: cpuset.Of(1, 3, 7), Away: cpuset.Of(7),
			},
		},
		{
			name: "offline CPUs outside of all lists are in no pool", topology: "cores=8 offline=3", spec: "guaranteed 4-7",
			want: pools.Pools{Shared: cpuset.Range(0, 2), Guaranteed: cpuset.Range(4, 7)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := must(pooltext.Parse(tt.spec))(t)
			got, err := spec.Resolve(must(hardware.Parse(tt.topology))(t).Topology())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Resolve: -want +got\n%s", diff)
			}
		})
	}
}

func TestResolveReportsEachProblem(t *testing.T) {
	long := "a234567890123456789012345678901234567890123456789012345678901234"
	tests := []struct {
		name, topology string
		spec           poolspec.Spec
		want           []string
	}{
		{
			name: "overlaps and CPUs that do not exist", topology: "cores=4",
			spec: poolspec.Spec{
				Partitions: []poolspec.Partition{{Type: "a", CPUs: cpuset.Range(0, 1)}, {Type: "b", CPUs: cpuset.Range(1, 2)}},
				Shared:     new(cpuset.Range(0, 8)), Guaranteed: poolspec.Guaranteed{CPUs: cpuset.Of(3, 9)},
			},
			want: []string{
				`partitions[1].cpus: "1-2": CPU 1 is in partitions[0].cpus too; take it out of one of them`,
				`shared.cpus: "0-8": the machine has no CPU 4-8; it has 0-3`,
				`shared.cpus: "0-8": CPU 0-1 is in partitions[0].cpus too; take it out of one of them`,
				`shared.cpus: "0-8": CPU 1-2 is in partitions[1].cpus too; take it out of one of them`,
				`guaranteed.cpus: "3,9": the machine has no CPU 9; it has 0-3`,
				`guaranteed.cpus: "3,9": CPU 3 is in shared.cpus too; take it out of one of them`,
			},
		},
		{
			name: "empty", topology: "cores=8 offline=4-7",
			spec: poolspec.Spec{
				Partitions: []poolspec.Partition{{Type: "none"}, {Type: "offline", CPUs: cpuset.Range(4, 5)}},
				Shared:     new(cpuset.Set{}), Guaranteed: poolspec.Guaranteed{CPUs: cpuset.Range(6, 7)},
			},
			want: []string{
				`partitions[0].cpus: "": no CPU; write a list like 0-3,8`,
				`partitions[1].cpus: "4-5": none of these CPUs is online; bring one online or choose from 0-3`,
				`shared.cpus: "": no CPU; write a list like 0-3,8`,
				`guaranteed.cpus: "6-7": none of these CPUs is online; bring one online or choose from 0-3`,
			},
		},
		{
			name: "guaranteed", topology: "cores=4",
			spec: poolspec.Spec{Guaranteed: poolspec.Guaranteed{
				CPUs: cpuset.Of(3), FromShared: true, Floor: -1, Overrides: []string{"core-type", "core-type", "strict-cpu-reservation"},
				Options: allocate.Options{DistributeCPUsAcrossNUMA: true, DistributeCPUsAcrossCores: true},
			}},
			want: []string{
				`guaranteed.from: "shared": guaranteed.cpus is a list; choose one of them`,
				`guaranteed.floor: "-1": is below 0; write how many CPUs the shared pool keeps, at least 1`,
				`guaranteed.options: "": distribute-cpus-across-numa: true and distribute-cpus-across-cores: true contradict each other: ` +
					`one spreads over NUMA nodes, the other over cores; turn one of them off`,
				`guaranteed.overrides[1]: "core-type": listed twice; remove one`,
				`guaranteed.overrides[2]: "strict-cpu-reservation": not an option; write one of ` + strings.Join(allocate.OptionNames(), ", ") + ", pod-level",
			},
		},
		{
			name: "floor without guaranteed.from", topology: "cores=4",
			spec: poolspec.Spec{Guaranteed: poolspec.Guaranteed{CPUs: cpuset.Of(3), Floor: 2}},
			want: []string{`guaranteed.floor: "2": counts with from: shared only, where containers take CPUs out of the shared pool; remove it`},
		},
		{
			name: "floor too high", topology: "cores=4",
			spec: poolspec.Spec{Guaranteed: poolspec.Guaranteed{FromShared: true, Floor: 4}},
			want: []string{`guaranteed.floor: "4": the shared pool has 4 CPUs and would never give one away; lower the floor or enlarge the pool`},
		},
		{
			name: "units", topology: "cores=4",
			spec: poolspec.Spec{
				Partitions: []poolspec.Partition{{Type: "shared", All: true}},
				Guaranteed: poolspec.Guaranteed{CPUs: cpuset.Of(3)},
				Units: []pools.UnitSpec{
					{Name: "a.service", CPUs: 1}, {Name: "a.service", CPUs: 1}, {Name: "b.service"}, {Name: "c.service", CPUs: 1, Pool: "shared"},
					{Name: "d.service", Pool: "x"}, {Name: "e", CPUs: 1}, {Name: "f g.service", CPUs: 1}, {Name: "h@.service", CPUs: 1},
					{Name: "i@1.service", Pool: "shared"}, {Name: "radio.slice", Pool: "shared"}, {Name: "radio-du.slice", Pool: "shared"},
					{Name: "-.slice", Pool: "shared"}, {Name: "kubepods-burstable.slice", Pool: "shared"}, {Name: "a--b.slice", Pool: "shared"}, {Name: "j.mount", Pool: "shared"},
				},
			},
			want: []string{
				`partitions[0].type: "shared": the name of another pool; choose a different one`,
				`units.a.service: "a.service": listed twice; remove one`,
				`units.b.service.cpus: "0": not a number of CPUs; write at least 1, or a pool`,
				`units.c.service.pool: "shared": exclusive CPUs and a pool at once; choose one of them`,
				`units.d.service.pool: "x": there is no such pool; write shared or the type of a partition`,
				`units: "e": not a service or slice; write the whole name, like du.service`,
				`units: "f g.service": not the name of a unit; write up to 255 of a-z, A-Z, 0-9 and :-_.\@`,
				`units: "h@.service": a template and not a unit; write the name of an instance, like du@1.service`,
				`units.radio-du.slice: "radio-du.slice": one of this slice and radio.slice lies in the other, so that they cannot have different CPUs; remove one`,
				`units: "-.slice": this slice holds pods, which have pools of their own; choose another unit`,
				`units: "kubepods-burstable.slice": this slice holds pods, which have pools of their own; choose another unit`,
				`units: "a--b.slice": not the name of a slice: a dash stands for the slice around it; write a name like radio.slice or radio-du.slice`,
				`units: "j.mount": not a service or slice; write the whole name, like du.service`,
				`units: "6": units request 6 CPUs, and the guaranteed pool has 1; enlarge the pool, or request fewer`,
			},
		},
		{
			name: "nothing left", topology: "cores=4",
			spec: poolspec.Spec{Partitions: []poolspec.Partition{{Type: "a", All: true}}, Guaranteed: poolspec.Guaranteed{CPUs: cpuset.Range(0, 3)}},
			want: []string{
				`shared.cpus: "rest": the other pools leave no online CPU of 0-3; take some from them`,
				`partitions[0].cpus: "all": the guaranteed pool has all online CPUs 0-3; take some from it`,
			},
		},
		{
			name: "names", topology: "cores=4",
			spec: poolspec.Spec{Partitions: []poolspec.Partition{
				{Type: "", All: true},
				{Type: "Management", All: true, CPUs: cpuset.Of(1), Namespaces: []string{"ok", "ok", "", "*", "-a", "a-", "a.b"}},
				{Type: "same", All: true},
				{Type: "same", All: true},
				{Type: long, All: true, Namespaces: []string{long[:63]}},
			}},
			want: []string{
				`partitions[0].type: "": not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management`,
				`partitions[1].cpus: "1": all and a list at once; choose one of them`,
				`partitions[1].type: "Management": not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management`,
				`partitions[1].namespaces[1]: "ok": listed twice; remove one`,
				`partitions[1].namespaces[2]: "": not the name of a namespace; write each name in full`,
				`partitions[1].namespaces[3]: "*": not the name of a namespace; write each name in full`,
				`partitions[1].namespaces[4]: "-a": not the name of a namespace; write each name in full`,
				`partitions[1].namespaces[5]: "a-": not the name of a namespace; write each name in full`,
				`partitions[1].namespaces[6]: "a.b": not the name of a namespace; write each name in full`,
				`partitions[3].type: "same": partitions[2] has this type too; give each type one partition`,
				`partitions[4].type: "` + long + `": not a DNS label; write 1 to 63 of a-z, 0-9 and -, like management`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.spec.Resolve(must(hardware.Parse(tt.topology))(t).Topology())
			if diff := cmp.Diff(pools.Pools{}, got); diff != "" {
				t.Errorf("Resolve returns pools with its error: %s; want an empty string", diff)
			}
			var lines []string
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				for _, e := range joined.Unwrap() {
					if _, ok := errors.AsType[*poolspec.FieldError](e); !ok {
						t.Errorf("%v is no *FieldError; want one", e)
					}
					lines = append(lines, e.Error())
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("Resolve: -want +got\n%s", diff)
			}
		})
	}
}

// TestClaimErrors checks the errors of CPUs for ResourceClaims, on two NUMA nodes of 4 cores with 2 threads.
func TestClaimErrors(t *testing.T) {
	list := func(text string) cpuset.Set { return must(cpuset.Parse(text))(t) }
	twoNodes := hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 4, Threads: 2}
	for name, c := range map[string]struct {
		change func(*poolspec.Spec)
		want   string
	}{
		"two lists": {func(s *poolspec.Spec) { s.Guaranteed.CPUs = list("2,9") }, `CPU 2 is in guaranteed.cpus too`},
		"mixed": {func(s *poolspec.Spec) {
			s.Guaranteed.Mixed = pools.Mixed{CPUs: cpuset.Of(3), Namespaces: []string{"*"}}
		}, `CPU 3 is in guaranteed.claims.cpus too`},
		"half a core": {func(s *poolspec.Spec) {
			s.Guaranteed.Options.FullPCPUsOnly = true
			s.Guaranteed.Claims.CPUs = list("2-3,11")
		}, `has parts of cores, and claims get whole cores; add CPU 10, or remove these cores`},
		"absent":     {func(s *poolspec.Spec) { s.Guaranteed.Claims.CPUs = list("2,99") }, `the machine has no CPU 99`},
		"lends none": {func(s *poolspec.Spec) { s.Guaranteed.Claims = poolspec.Claims{Lend: true} }, `claims have no CPUs`},
		"nothing shared": {func(s *poolspec.Spec) {
			s.StrictReservation = true
			s.Guaranteed.Claims.CPUs = list("2-7,10-15")
		}, `leave no online CPU`},
	} {
		t.Run(name, func(t *testing.T) {
			s := poolspec.Spec{
				Partitions: []poolspec.Partition{{Type: "management", CPUs: list("0,8"), Namespaces: []string{"kube-system"}}},
				Guaranteed: poolspec.Guaranteed{CPUs: list("1,9"), Claims: poolspec.Claims{CPUs: list("2-3,6-7,10-11,14-15")}},
			}
			c.change(&s)
			if _, err := s.Resolve(twoNodes.Topology()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Resolve = %v; want an error with %q", err, c.want)
			}
		})
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
