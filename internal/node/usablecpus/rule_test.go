package usablecpus_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	podSlice = "kubepods.slice/kubepods-poda.slice"
	scope    = podSlice + "/cri-containerd-1.scope"
)

// TestRule checks which CPUs pools cannot use on a machine with CPUs 0-7.
func TestRule(t *testing.T) {
	for name, test := range map[string]struct {
		root       string
		nested     bool
		partitions map[cgroup.Path]string
		online     string
		want       string // CPUs by cgroup
	}{
		"all":                           {root: "0-7"},
		"offline":                       {root: "0-5", online: "0-5"},
		"a unit":                        {root: "0-5", partitions: map[cgroup.Path]string{"du.slice": "6-7"}, want: "du.slice=6-7"},
		"an offline CPU of a unit":      {root: "0-5", online: "0-6", partitions: map[cgroup.Path]string{"du.slice": "6-7"}, want: "du.slice=6"},
		"two units":                     {root: "0-3", partitions: map[cgroup.Path]string{"system.slice/b.service": "6-7", "a.slice": "4-5"}, want: "a.slice=4-5 system.slice/b.service=6-7"},
		"a unit in a unit":              {root: "0-3", partitions: map[cgroup.Path]string{"du.slice": "4-5", "du.slice/du.service": "6-7"}, want: "du.slice=4-5 du.slice/du.service=6-7"},
		"no unit":                       {root: "0-5", partitions: map[cgroup.Path]string{"machine/vm": "6-7"}, want: "machine/vm=6-7"},
		"an owner":                      {root: "0-5", partitions: map[cgroup.Path]string{scope: "6-7"}},
		"an owner with cgroupfs":        {root: "0-5", partitions: map[cgroup.Path]string{"kubepods/poda/1": "6-7"}},
		"an owner and a unit":           {root: "0-3", partitions: map[cgroup.Path]string{scope: "4-5", "du.slice": "6-7"}, want: "du.slice=6-7"},
		"parked":                        {root: "0-5", partitions: map[cgroup.Path]string{cgroup.Parking: "6-7"}},
		"a cgroup in an owner":          {root: "0-4", partitions: map[cgroup.Path]string{scope: "5", scope + "/inner": "6-7"}},
		"a cgroup in a container":       {root: "0-5", partitions: map[cgroup.Path]string{scope + "/inner": "6-7"}, want: scope + "/inner=6-7"},
		"all pods":                      {root: "0-3", partitions: map[cgroup.Path]string{"kubepods.slice": "4-7"}},
		"all pods of a nested kubelet":  {root: "0-3", partitions: map[cgroup.Path]string{"kubelet.slice/kubelet-kubepods.slice": "4-7"}},
		"lost by the kernel":            {root: "0-5"},
		"shared with a partition":       {root: "0-7", partitions: map[cgroup.Path]string{"du.slice": "6-7"}},
		"a container":                   {root: "0-5", nested: true, want: "=6-7"},
		"a container without a limit":   {root: "0-7", nested: true},
		"a container and a unit":        {root: "0-3", nested: true, partitions: map[cgroup.Path]string{"du.slice": "4-5"}, want: "du.slice=4-5 =6-7"},
		"a container with an owner":     {root: "0-3", nested: true, partitions: map[cgroup.Path]string{scope: "4-5"}, want: "=6-7"},
		"a container that lost a CPU":   {root: "0-3", nested: true, online: "0-4", want: "=4"},
		"the kubelet's system cgroup":   {root: "0-5", partitions: map[cgroup.Path]string{"kubepods.slice/kubepods-system.slice": "6-7"}},
		"a slice with a name like pods": {root: "0-5", partitions: map[cgroup.Path]string{"kubepodsx.slice": "6-7"}, want: "kubepodsx.slice=6-7"},
	} {
		t.Run(name, func(t *testing.T) {
			online := parse(t, "0-7")
			if test.online != "" {
				online = parse(t, test.online)
			}
			root := cgroup.RootCPUs{Effective: parse(t, test.root), Nested: test.nested, Partitions: make(map[cgroup.Path]cpuset.Set)}
			for p, cpus := range test.partitions {
				root.Partitions[p] = parse(t, cpus)
			}
			var got []string
			for _, w := range usablecpus.Rule(online, root) {
				got = append(got, string(w.By)+"="+w.CPUs.String())
			}
			if is := strings.Join(got, " "); is != test.want {
				t.Errorf("withheld %q; want %q", is, test.want)
			}
		})
	}
}

// TestProblems checks that a problem names cgroup, CPUs and remedy, and that CPUs outside of the
// pools are none.
func TestProblems(t *testing.T) {
	all := []usablecpus.Withheld{
		{By: "system.slice/du.service", CPUs: cpuset.Range(6, 7)}, {By: "machine/vm", CPUs: cpuset.Of(5)},
		{By: scope, CPUs: cpuset.Of(4)}, {By: "other.slice", CPUs: cpuset.Of(1)}, {CPUs: cpuset.Of(3)},
	}
	got := usablecpus.Problems(all, cpuset.Range(2, 6))
	want := []string{"du.service: the cpuset partition of system.slice/du.service has CPUs 6: ", ": the cpuset partition of machine/vm has CPUs 5: ",
		": the cpuset partition of " + scope + " has CPUs 4: ", ": the cgroup root lacks CPUs 3, because this machine is a container"}
	remedies := []string{"remove CPUSetPartition= from du.service", "write member to its cpuset.cpus.partition", "write member to its", "give the container these CPUs"}
	if len(got) != len(want) {
		t.Fatalf("%d problems; want %d: %+v", len(got), len(want), got)
	}
	for i, p := range got {
		if is := p.Unit + ": " + p.Text; p.Code != "CPUsWithheld" || !strings.HasPrefix(is, want[i]) || !strings.Contains(is, remedies[i]) {
			t.Errorf("problem %s %q; want %q and %q", p.Code, is, want[i], remedies[i])
		}
	}
}

func parse(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
