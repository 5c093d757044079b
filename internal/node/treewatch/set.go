package treewatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeNoticeFlood is the code of a cgroup in which processes write too often for a watch.
const codeNoticeFlood pools.Code = "NoticeFlood"

// FloodReason returns the problem of a cgroup that the watcher has muted.
func FloodReason(p cgroup.Path) pools.Reason {
	return pools.Reason{Code: codeNoticeFlood, Text: fmt.Sprintf(
		"%s: processes write the files of this cgroup too often; the daemon reads it once a second instead of watching it. Stop the processes", p)}
}

// Set holds the cgroups that a watcher must watch for writes to their files, and the
// cgroups that it must watch for children. The zero value is empty.
type Set struct {
	targets, pods  []cgroup.Path
	files, parents []cgroup.Path
}

// Update makes the set for targets and for the slices of pods, sorted. It does nothing if
// both are unchanged, as after most passes. Without pods, it holds the cgroups of the kubelet.
func (s *Set) Update(targets []cgroup.Target, pods []cgroup.Path) {
	same := func(p cgroup.Path, t cgroup.Target) bool { return p == t.Path }
	if s.parents != nil && slices.EqualFunc(s.targets, targets, same) && slices.Equal(s.pods, pods) {
		return
	}
	s.targets, s.files = s.targets[:0], make([]cgroup.Path, 0, 2*len(targets))
	for i := range targets {
		t := &targets[i]
		s.targets = append(s.targets, t.Path)
		s.files = append(s.files, t.Path)
		if inner, ok := t.Path.Inner(); ok && t.Unit == "" {
			s.files = append(s.files, inner) // crun makes it after the scope
		}
	}
	var last cgroup.Path
	for _, p := range pods { // all of one kubelet have the same root
		if root, _ := p.SystemPartition(); root != last {
			s.files, last = append(s.files, root), root
		}
	}
	s.pods, s.parents = pods, parentsOf(pods)
}

// Files returns the cgroups whose files matter: the targets, crun's cgroups in them, and the root
// of the kubelet's system partition, which need not exist.
func (s *Set) Files() []cgroup.Path { return slices.Clip(s.files) }

// Parents returns the cgroups whose children matter, sorted: the cgroups of the kubelet, in
// which pods appear, and the slices of pods, in which containers appear.
func (s *Set) Parents() []cgroup.Path { return slices.Clip(s.parents) }

func parentsOf(pods []cgroup.Path) []cgroup.Path {
	parents := make([]cgroup.Path, 0, len(pods)+24)
	// The cgroups of the kubelet with the default --cgroup-root, and in a kind node.
	tops := map[cgroup.Path]bool{
		"kubepods.slice": true, "kubepods": true,
		"kubelet.slice/kubelet-kubepods.slice": true, "kubelet/kubepods": true,
	}
	for _, slice := range pods {
		parents = append(parents, slice)
		for p := slice.Parent(); p != ""; p = p.Parent() {
			if name := strings.TrimSuffix(p.Base(), ".slice"); name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
				tops[p] = true
			}
		}
	}
	for top := range tops {
		system := childOf(top, "system") // of the kubelet's system partition
		for _, parent := range []cgroup.Path{top, system} {
			parents = append(parents, parent, childOf(parent, "burstable"), childOf(parent, "besteffort"))
		}
	}
	slices.Sort(parents) // equal sets must compare as equal
	return parents
}

// childOf returns the cgroup that the kubelet makes below one of its own cgroups.
func childOf(parent cgroup.Path, name string) cgroup.Path {
	if stem, ok := strings.CutSuffix(parent.Base(), ".slice"); ok {
		name = stem + "-" + name + ".slice"
	}
	return parent.Join(name)
}
