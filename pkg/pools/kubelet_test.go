package pools_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// kubeletNode has CPUs 0-1 for management and a kubelet that allocates the others. Its
// pods are a management pod, one without permission, an exclusive one, an unread one
// and one with CPUs for all of its containers.
func kubeletNode(t *testing.T, shared string, held ...pools.Assignment) pools.Input {
	t.Helper()
	top := hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()
	in := pools.Input{Machine: allocate.New(top), Held: held}
	spec := poolspec.Spec{
		Partitions:        []poolspec.Partition{{Type: "management", CPUs: cpuset.Range(0, 1), Namespaces: []string{"kube-system"}}},
		StrictReservation: true, Guaranteed: poolspec.Guaranteed{Kubelet: true},
	}
	in.Pools = must(spec.Resolve(top))(t)
	if shared != "" {
		in.Pools.Shared = must(cpuset.Parse(shared))(t)
	}
	in.Pods = must(parsePods(`
pod managed kube-system/managed Burstable
annotation target.workload.openshift.io/management {"effect":"PreferredDuringScheduling"}
annotation resources.workload.openshift.io/app {"cpushares":409}
app c1 running 1
pod other default/other Burstable
annotation target.workload.openshift.io/management {"effect":"PreferredDuringScheduling"}
app c2 running 2
pod owner default/owner Guaranteed cpu=2
app c3 running 3 cpu=2
side c4 running 3 cpu=100m
pod whole default/whole Guaranteed cpu=2
app c5 running 4
pod unread default/unread
app c6 running 5
`))(t)
	in.Pods[4].Unread = true
	in.Pods[2].Containers = append(in.Pods[2].Containers, pools.Container{ID: "sandbox", Name: "POD", Kind: pools.Infra, State: pools.Running})
	return in
}

func hold(pod, container string, cpus ...int) pools.Assignment {
	return pools.Assignment{Key: pools.Key{PodUID: pod, Container: container}, CPUs: cpuset.Of(cpus...)}
}

// TestKubelet checks that the kubelet's containers stay on any CPUs that the kubelet
// gives them, and that management pods have the rest of their pool.
func TestKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		shared   string // the kubelet's default set; empty if it is not known
		held     []pools.Assignment
		want     string // containers, by id, with where they are
		problems string
	}{
		"the kubelet has not answered yet": {
			want: "c1 management 0-1, c2 other 2-7, sandbox other , c3 other 2-7, c4 other 2-7, c6 other 2-7, c5 other 2-7",
		},
		"one has CPUs, and one pod": {
			shared: "4,6-7", held: []pools.Assignment{hold("owner", "app", 2, 3), hold("whole", "", 5)},
			want: "c1 management 0-1, c2 other 4,6-7, sandbox other , c3 other 2-3, c4 other 4,6-7, c6 other 4,6-7, c5 other 5",
		},
		"of one in a pod's CPUs the container's count": {
			shared: "4,6-7", held: []pools.Assignment{hold("whole", "", 2, 3, 5), hold("whole", "app", 5)},
			want: "c1 management 0-1, c2 other 4,6-7, sandbox other , c3 other 4,6-7, c4 other 4,6-7, c6 other 4,6-7, c5 other 5",
		},
		"reserved CPUs are in the default set": {
			shared: "0-1,4-7", held: []pools.Assignment{hold("owner", "app", 2, 3)},
			want: "c1 management 0-1, c2 other 0-1,4-7, sandbox other , c3 other 2-3, c4 other 0-1,4-7, c6 other 0-1,4-7, c5 other 0-1,4-7",
		},
		"the kubelet gives a management CPU away": {
			shared: "3-7", held: []pools.Assignment{hold("owner", "app", 1, 2)},
			want:     "c1 management 0, c2 other 3-7, sandbox other , c3 other 1-2, c4 other 3-7, c6 other 3-7, c5 other 3-7",
			problems: "KubeletTook default/owner app: the kubelet has given it CPU 1 of management pool management; the pool does without",
		},
		"and all of them, to a pod that is unknown yet": {
			shared: "2-7", held: []pools.Assignment{hold("later", "app", 0, 1)},
			want:     "c1 management 0-1, c2 other 2-7, sandbox other , c3 other 2-7, c4 other 2-7, c6 other 2-7, c5 other 2-7",
			problems: "KubeletTook  app: the kubelet has given it CPUs 0-1 of management pool management; the pool has no others and keeps them, too",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := kubeletNode(t, c.shared, c.held...)
			p := checkedBuild(t, in)
			var got, problems []string
			for _, pod := range p.Pods {
				for _, at := range pod.Containers {
					got = append(got, at.ID+" "+string(at.Pool)+" "+at.CPUs.String())
					if at.Pool == pools.Other && (at.Exclusive || at.Unlimited || at.Shares != 0 || at.Reason.Text != "placed by the kubelet; cpupoold does not change it") {
						t.Errorf("container of the kubelet = %+v; want it unchanged", at)
					}
				}
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("containers:\n%s; want\n%s", got, c.want)
			}
			for _, problem := range p.Problems {
				switch problem.Code {
				case pools.CodeKubeletTook:
					text, _, _ := strings.Cut(problem.Text, "; have the kubelet")
					problems = append(problems, string(problem.Code)+" "+problem.Pod+" "+problem.Container+": "+text)
				case pools.CodeNamespaceNotListed: // of other
				default:
					t.Errorf("unexpected problem %v", problem)
				}
			}
			if got := strings.Join(problems, ", "); got != c.problems {
				t.Errorf("problems:\n%s; want\n%s", got, c.problems)
			}
			if len(p.Assignments) != 0 || p.Pods[0].Shares != 409 {
				t.Errorf("assignments %v, and %d shares of the managed pod; want none and 409", p.Assignments, p.Pods[0].Shares)
			}
		})
	}
}
