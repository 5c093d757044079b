package daemon

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// BenchmarkNoteAt is what one event costs on a node with 500 containers of 250 pods: of a container's cgroup, of a pod's slice, and of a
// cgroup that nobody is in, for which all of them are looked at.
func BenchmarkNoteAt(b *testing.B) {
	l := &Loop{inventory: inventory.New(cgroup.DriverSystemd), historyLog: view.NewHistoryLog()}
	var containers, slices, nobody []cgroup.Path
	for i := range 250 {
		slice := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%032x.slice", i))
		pod := fmt.Sprintf("pod-%d", i)
		l.inventory.Pods[pod] = &inventory.Pod{Pod: cri.Pod{ID: pod, Name: pod, Namespace: "default"}, Uid: pod, Slice: slice, Pause: slice.Join("pause.scope")}
		slices, nobody = append(slices, slice), append(nobody, slice.Join("nobody.scope"))
		for _, name := range []string{"a", "b"} {
			c := cri.Container{ID: pod + name, PodID: pod, Name: name}
			at := slice.Join(fmt.Sprintf("cri-containerd-%064x.scope", len(containers)))
			l.inventory.Containers[c.ID] = &inventory.Container{Container: c, Path: at}
			containers = append(containers, at)
		}
	}
	for name, paths := range map[string][]cgroup.Path{"container": containers, "slice": slices, "nobody": nobody} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				l.noteAt(paths[i%len(paths)], history.Event{Kind: history.Wrote, Property: cgroup.FileCPUs, Value: "4-5"})
			}
		})
	}
}
