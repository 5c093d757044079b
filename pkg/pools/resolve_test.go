package pools_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
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
				Shared:     cpuset.Of(2), Guaranteed: cpuset.Range(4, 6), Offline: cpuset.Of(1, 3, 7),
			},
		},
		{
			name: "offline CPUs in no list are nobody's", topology: "cores=8 offline=3", spec: "guaranteed 4-7",
			want: pools.Pools{Shared: cpuset.Range(0, 2), Guaranteed: cpuset.Range(4, 7)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := must(parseSpec(tt.spec))(t)
			got, err := spec.Resolve(must(parseMachine(tt.topology))(t).topology())
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
		spec           pools.Spec
		want           []string
	}{
		{
			name: "overlaps and CPUs that do not exist", topology: "cores=4",
			spec: pools.Spec{
				Partitions: []pools.PartitionSpec{{Type: "a", CPUs: cpuset.Range(0, 1)}, {Type: "b", CPUs: cpuset.Range(1, 2)}},
				Shared:     new(cpuset.Range(0, 8)), Guaranteed: pools.GuaranteedSpec{CPUs: cpuset.Of(3, 9)},
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
			spec: pools.Spec{
				Partitions: []pools.PartitionSpec{{Type: "none"}, {Type: "offline", CPUs: cpuset.Range(4, 5)}},
				Shared:     new(cpuset.Set{}), Guaranteed: pools.GuaranteedSpec{CPUs: cpuset.Range(6, 7)},
			},
			want: []string{
				`partitions[0].cpus: "": no CPU; write a list like 0-3,8`,
				`partitions[1].cpus: "4-5": none of these CPUs is online; bring one online or choose from 0-3`,
				`shared.cpus: "": no CPU; write a list like 0-3,8`,
				`guaranteed.cpus: "6-7": none of these CPUs is online; bring one online or choose from 0-3`,
			},
		},
		{
			name: "nothing left", topology: "cores=4",
			spec: pools.Spec{Partitions: []pools.PartitionSpec{{Type: "a", All: true}}, Guaranteed: pools.GuaranteedSpec{CPUs: cpuset.Range(0, 3)}},
			want: []string{
				`shared.cpus: "rest": the other pools leave no online CPU of 0-3; take some from them`,
				`partitions[0].cpus: "all": the guaranteed pool has all online CPUs 0-3; take some from it`,
			},
		},
		{
			name: "names", topology: "cores=4",
			spec: pools.Spec{Partitions: []pools.PartitionSpec{
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
			got, err := tt.spec.Resolve(must(parseMachine(tt.topology))(t).topology())
			if diff := cmp.Diff(pools.Pools{}, got); diff != "" {
				t.Errorf("Resolve gives pools beside its error: %s", diff)
			}
			var lines []string
			if joined, ok := err.(interface{ Unwrap() []error }); ok {
				for _, e := range joined.Unwrap() {
					if _, ok := errors.AsType[*pools.FieldError](e); !ok {
						t.Errorf("%v is not a *FieldError", e)
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
