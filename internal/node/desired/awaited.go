package desired

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Slices of pods that the runtime has not reported
//
// The runtime starts a pause container without a request over NRI. But the kubelet makes the
// slice of the pod before. From then on the slice has the CPUs of the shared pool, so that
// the pause container and the OCI runtime do not start on the CPUs of owners. When the runtime
// has reported the pod, the slice gets its CPUs from before (sliceCPUs). Diff widens it after
// the pause container has its CPUs, and before a container gets CPUs beyond the slice. A reply
// about such a container waits for that (kernelstate.Cache.Held).

// addAwaited adds targets for the slices in Awaited to want. It drops a slice from Awaited if the
// slice is gone or has a target with CPUs. It also drops a slice in which a process ran before the
// first write, because the pod may have owners that the daemon does not know. A slice with CPUs
// from another process keeps these. A pod without a pause container has its first target with its
// first container.
func (in *Input) addAwaited(p pools.Plan, want []cgroup.Target) []cgroup.Target {
	shared := p.Shared.Difference(OwnedBy(p).Union(in.Leaving))
	var more []cgroup.Target
	for path := range in.Awaited {
		st, err := in.Read(path)
		first := !in.Journal.HasOriginal(path, cgroup.FileCPUs)
		late := st.Populated || !st.CPUs.IsEmpty() || in.Inventory.PodAt(path) != nil
		released := func(t cgroup.Target) bool { return t.Path == path && t.Around }
		if err != nil || first && late || slices.ContainsFunc(want, released) {
			delete(in.Awaited, path)
			continue
		}
		if st.HasCPUSet && !shared.IsEmpty() && !in.Partitions {
			more = append(more, cgroup.Target{Path: path, CPUs: shared, Around: true, Unrecorded: true, Reason: "the runtime has not reported the pod yet"})
		}
	}
	slices.SortFunc(more, func(a, b cgroup.Target) int { return cmp.Compare(a.Path, b.Path) })
	return append(want, more...)
}
