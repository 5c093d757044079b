package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// BenchmarkNoteAt measures one event on a node with 500 containers of 250 pods. The events are
// of a container's cgroup, of a pod's slice, and of an unknown cgroup, for which all containers
// are compared.
func BenchmarkNoteAt(b *testing.B) {
	m, l := inventory.New(cgroup.DriverSystemd), view.NewHistoryLog(time.Now)
	var containers, slices, unknown []cgroup.Path
	for i := range 250 {
		slice := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%032x.slice", i))
		pod := fmt.Sprintf("pod-%d", i)
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: pod, UID: pod, Name: pod, Namespace: "default", CgroupParent: slice.Base(), CgroupsPath: slice.Base() + ":cri-containerd:" + pod}})
		slices, unknown = append(slices, slice), append(unknown, slice.Join("nobody.scope"))
		for _, name := range []string{"a", "b"} {
			id := fmt.Sprintf("%064x", len(containers))
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: pod, Name: name, CgroupsPath: slice.Base() + ":cri-containerd:" + id}})
			containers = append(containers, m.Objects().Container(id).Path)
		}
	}
	for name, paths := range map[string][]cgroup.Path{"container": containers, "slice": slices, "nobody": unknown} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				l.AddAt(m.Objects(), paths[i%len(paths)], history.Event{Kind: history.Wrote, Property: cgroup.FileCPUs, Value: "4-5"})
			}
		})
	}
}
