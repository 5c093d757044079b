package nodefixture

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// StaticKubelet allocates the CPUs of a fake node as a kubelet with the static policy and
// strict-cpu-reservation does. A container gets its set at its creation. When the default
// set changes, the kubelet updates all containers that run on it.
type StaticKubelet struct {
	n      *Node
	shared map[string]bool       // containers of the default set, by id; managed ones are among them
	owners map[string]cpuset.Set // containers with exclusive CPUs, by id

	mu      sync.Mutex // guards the fields below, which a daemon reads
	Policy  string
	Default cpuset.Set
	Held    map[pools.Key]cpuset.Set
	Err     error // of State
}

// NewStaticKubelet makes the node's kubelet a static one, with KubeletYAML as the
// configuration, and returns it.
func NewStaticKubelet(n *Node) *StaticKubelet {
	n.YAML = KubeletYAML
	n.Static = &StaticKubelet{n: n, Policy: "static", Default: cpuset.Range(2, 7),
		shared: make(map[string]bool), owners: make(map[string]cpuset.Set), Held: make(map[pools.Key]cpuset.Set)}
	return n.Static
}

// State returns the kubelet's state file.
func (k *StaticKubelet) State(context.Context) (podresources.CPUState, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Err != nil {
		return podresources.CPUState{}, k.Err
	}
	s := podresources.CPUState{Policy: k.Policy, Default: k.Default}
	for _, key := range slices.SortedFunc(maps.Keys(k.Held), func(a, b pools.Key) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container))
	}) {
		s.Holdings = append(s.Holdings, podresources.Holding{PodUID: key.PodUID, Container: key.Container, CPUs: k.Held[key]})
	}
	return s, nil
}

// Change calls change, which may set the exported fields.
func (k *StaticKubelet) Change(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

// Give runs a container with exclusive CPUs, which all other containers leave first.
func (k *StaticKubelet) Give(uid string, cpus cpuset.Set) (pod, id string) {
	k.n.T.Helper()
	pod = k.n.RunPod(uid, "default", "guaranteed", cpus.Len(), nil)
	k.Change(func() {
		k.Held[pools.Key{PodUID: uid, Container: "app"}] = cpus
		k.Default = k.Default.Difference(cpus)
	})
	k.Reconcile()
	res := WholeCPUs(cpus.Len())
	res.CPUs = cpus.String()
	id = k.n.RunContainer(pod, "app", res)
	k.owners[id] = cpus
	return pod, id
}

// End removes a pod that Give has made, and returns its CPUs to the default set.
func (k *StaticKubelet) End(uid, pod, id string) {
	k.n.T.Helper()
	if err := errors.Join(k.n.Runtime.StopPod(pod), k.n.Runtime.RemovePod(pod)); err != nil {
		k.n.T.Fatal(err)
	}
	k.Change(func() {
		key := pools.Key{PodUID: uid, Container: "app"}
		k.Default = k.Default.Union(k.Held[key]).Difference(cpuset.Range(0, 1))
		delete(k.Held, key)
	})
	delete(k.owners, id)
	k.Reconcile()
}

// Run runs a container on the default set.
func (k *StaticKubelet) Run(uid, namespace, name string, annotations map[string]string) string {
	k.n.T.Helper()
	pod := k.n.RunPod(uid, namespace, "burstable", 0, annotations)
	id := k.n.RunContainer(pod, name, cri.Resources{Shares: 512, CPUs: k.Default.String()})
	k.shared[id] = true
	return id
}

// Reconcile writes the default set to all containers that run on it.
func (k *StaticKubelet) Reconcile() {
	k.n.T.Helper()
	for _, id := range slices.Sorted(maps.Keys(k.shared)) {
		if err := k.n.Client.UpdateCPUs(k.n.T.Context(), id, k.Default); err != nil {
			k.n.T.Fatal(err)
		}
	}
}

// Restart writes the sets of all containers, changed or not.
func (k *StaticKubelet) Restart() {
	k.n.T.Helper()
	for id, cpus := range k.owners {
		if err := k.n.Client.UpdateCPUs(k.n.T.Context(), id, cpus); err != nil {
			k.n.T.Fatal(err)
		}
	}
	k.Reconcile()
}

// Check checks that each container runs on the kubelet's set at this moment, and each
// managed container, by id, on the CPUs of managed.
func (k *StaticKubelet) Check(managed map[string]string) {
	k.n.T.Helper()
	var occupants []invariants.Occupant
	for id := range k.shared {
		want := k.Default.String()
		if m := managed[id]; m != "" {
			want = m
		}
		got := k.n.State(id).Effective
		if got.String() != want {
			k.n.T.Fatalf("container %s is on %s; want %s\n%s", id, got, want, k.n.Dump())
		}
		occupants = append(occupants, invariants.Occupant{Name: id, CPUs: got})
	}
	for id, cpus := range k.owners {
		got := k.n.State(id).Effective
		if !got.Equal(cpus) {
			k.n.T.Fatalf("owner %s is on %s; want %s\n%s", id, got, cpus, k.n.Dump())
		}
		occupants = append(occupants, invariants.Occupant{Name: id, CPUs: got, Exclusive: true})
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		k.n.T.Error(err)
	}
}

// ForeignWrites records from now on the daemon's writes to cgroups of containers that are
// not managed.
func (k *StaticKubelet) ForeignWrites(managed map[string]string) *[]string {
	ours := make(map[string]bool)
	for id := range managed {
		ours[filepath.Dir(k.n.Runtime.Cgroup(id))] = true // its pod's slice
	}
	wrote := new([]string)
	k.n.Tree.Intercept(func(x testnode.CgroupWrite) error {
		if !ours[filepath.Dir(filepath.Dir(x.Name))] && !ours[filepath.Dir(x.Name)] {
			*wrote = append(*wrote, x.Name+"="+x.Value)
		}
		return nil
	})
	return wrote
}
