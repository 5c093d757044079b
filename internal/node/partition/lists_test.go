package partition_test

import (
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestListsOfOthers checks which exclusive lists a new daemon clears, with a journal and after its
// loss. They are lists of both drivers, also below a root that the kubelet is configured with.
func TestListsOfOthers(t *testing.T) {
	const (
		pod   = "kubepods.slice/kubepods-pod0c7b8d5e_3a64_4f0e_9d0f_000000000001.slice"
		scope = pod + "/cri-containerd-1.scope"
	)
	for p, cleared := range map[cgroup.Path][2]bool{ // with a journal, and without
		"kubepods.slice": {false, true}, "kubepods": {false, true},
		"kubepods.slice/kubepods-burstable.slice": {false, true},
		"kubelet.slice/kubelet-kubepods.slice":    {false, true},
		"system.slice":                            {}, "kubepodsx.slice": {},
		pod: {true, true}, scope: {false, true}, scope + "/container": {},
	} {
		for i, journal := range []undo.Document{{Originals: []undo.Original{{Path: "other.slice", File: cgroup.FileCPUs}}}, {}} {
			n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
			n.Tree.MkdirAll(string(p))
			var above []cgroup.Path
			for a := p; a != ""; a = a.Parent() {
				above = append(above, a)
			}
			for _, a := range slices.Backward(above) {
				if err := n.Tree.Write(string(a.Join(cgroup.FileExclusive)), "7"); err != nil {
					t.Fatal(err)
				}
			}
			n.restart(journal)
			n.pass()
			lists := n.ExclusiveLists()
			if _, there := lists[p]; there == cleared[i] {
				t.Errorf("%s, %d originals: lists %v", p, len(journal.Originals), lists)
			}
		}
	}
}
