package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// BenchmarkNoteAt measures one event on a node with 500 containers of 250 pods. The events are
// of a container's cgroup, of a pod's slice, and of an unknown cgroup, for which all containers
// are compared.
func BenchmarkNoteAt(b *testing.B) {
	l := &Loop{inventory: inventory.New(cgroup.DriverSystemd), historyLog: view.NewHistoryLog(time.Now)}
	var containers, slices, nobody []cgroup.Path
	for i := range 250 {
		slice := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%032x.slice", i))
		pod := fmt.Sprintf("pod-%d", i)
		l.inventory.PutPod(inventory.PodStatus{Pod: cri.Pod{ID: pod, UID: pod, Name: pod, Namespace: "default", CgroupParent: slice.Base(), CgroupsPath: slice.Base() + ":cri-containerd:" + pod}})
		slices, nobody = append(slices, slice), append(nobody, slice.Join("nobody.scope"))
		for _, name := range []string{"a", "b"} {
			id := fmt.Sprintf("%064x", len(containers))
			l.inventory.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: id, PodID: pod, Name: name, CgroupsPath: slice.Base() + ":cri-containerd:" + id}})
			containers = append(containers, l.inventory.Container(id).Path)
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
