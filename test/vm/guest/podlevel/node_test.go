//go:build guest

package podlevel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// config leaves six CPUs for a pod of five and another owner. The resync is far away, so that it cannot repair the effect of a missed
// event.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0, namespaces: [kube-system]}
shared: {cpus: 1}
guaranteed: {cpus: 2-7}
resyncPeriod: 5m
podResourcesSocket: none
logFormat: json
`

func guaranteed() cpuset.Set { return cpuset.Range(2, 7) }
func shared() cpuset.Set     { return cpuset.Of(1) }

// node is the guest as the tests use it.
type node struct {
	*guestnode.Node

	neighbours roles // of the pods that run all the time
}

// newNode starts the daemon, and pods that must keep their CPUs.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{guestnode.New(t), roles{"owner/app": "own 1", "web/app": "shared"}}
	n.StartDaemon(config)
	n.connected()
	n.Apply(
		manifest.Pod{Name: "owner", Namespace: "default", Containers: []manifest.Container{whole("app", 1)}},
		manifest.Pod{Name: "web", Namespace: "default", Containers: []manifest.Container{bare("app")}})
	n.settles("the neighbours", roles{})
	return n
}

// in returns the node for a subtest.
func (n *node) in(t *testing.T) *node {
	return &node{&guestnode.Node{T: t, FS: n.FS, Client: n.Client, Runtime: n.Runtime}, n.neighbours}
}

// connected waits until the runtime asks the daemon before it creates containers, if the runtime has NRI.
func (n *node) connected() {
	n.Helper()
	if n.Runtime.NRI {
		n.AwaitNRI()
	}
}

// bare returns a container without resources.
func bare(name string) manifest.Container { return manifest.Container{Name: name} }

// whole returns a container with whole CPUs.
func whole(name string, cpus int) manifest.Container {
	return manifest.Container{Name: name, CPU: strconv.Itoa(cpus), Memory: "20Mi", Limited: true}
}

// pod returns a Guaranteed pod that has a number of CPUs. The API server's defaults do not apply to a static pod, so it has requests and limits.
func pod(name string, cpus int, containers ...manifest.Container) manifest.Pod {
	total := map[string]string{"cpu": strconv.Itoa(cpus), "memory": "120Mi"}
	return manifest.Pod{
		Name: name, Namespace: "default", Containers: containers,
		More: map[string]any{"resources": map[string]any{"requests": total, "limits": total}},
	}
}

// roles are the CPUs that containers must have, by POD/CONTAINER: "own 2", "pool 4" (shared with the same pod only) or "shared".
type roles map[string]string

// of returns roles of the containers of one pod.
func of(pod string, containers map[string]string) roles {
	r := make(roles)
	for name, role := range containers {
		r[pod+"/"+name] = role
	}
	return r
}

// cpus are the CPUs of containers, by POD/CONTAINER.
type cpus map[string]cpuset.Set

// settles waits until each container has its role, and the daemon has nothing left to write. It returns the CPUs.
func (n *node) settles(when string, want roles) cpus {
	n.Helper()
	n.Eventually(when, func() error { _, err := n.placed(want); return err })
	n.Settled()
	sets, err := n.placed(want)
	if err != nil {
		n.Fatalf("%s, after the daemon has settled: %v\n%s", when, err, n.Evidence())
	}
	n.Logf("%s: %v", when, sets)
	return sets
}

// keeps fails the test if a container has other CPUs than before.
func (n *node) keeps(when string, before, now cpus) {
	n.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !before[name].Equal(now[name]) {
			n.Errorf("%s: CPUs of %s changed from %s to %s; want no change", when, name, before[name], now[name])
		}
	}
}

// placed returns the effective CPUs of the running containers. The error reports a wrong role, or CPUs that others have too.
func (n *node) placed(want roles) (cpus, error) {
	want = maps.Clone(want)
	maps.Copy(want, n.neighbours)
	running, err := n.Containers()
	if err != nil {
		return nil, err
	}
	sets, pools, known := make(cpus), make(cpus), make(map[cgroup.Path]bool)
	var occupants []invariants.Occupant
	for _, c := range running {
		pod, _, _ := strings.Cut(c.Pod.Name, "-")
		name := pod + "/" + c.Name
		if _, twice := sets[name]; twice || want[name] == "" {
			return nil, fmt.Errorf("container %s runs on CPUs %s, and must not run", name, c.Effective)
		}
		if err := n.hasRole(c, want[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		sets[name], known[c.Path] = c.Effective, true
		if !strings.HasPrefix(want[name], "pool ") {
			occupants = append(occupants, invariants.Occupant{Name: name, CPUs: c.Effective, Exclusive: strings.HasPrefix(want[name], "own ")})
			continue
		}
		if other, found := pools[pod]; found && !other.Equal(c.Effective) {
			return nil, fmt.Errorf("%s has CPUs %s; another container in the pool of the pod has %s", name, c.Effective, other)
		}
		pools[pod] = c.Effective
	}
	if len(sets) != len(want) {
		return nil, fmt.Errorf("the containers %v run; want %v", slices.Sorted(maps.Keys(sets)), slices.Sorted(maps.Keys(want)))
	}
	for pod, set := range pools {
		occupants = append(occupants, invariants.Occupant{Name: "the pool of " + pod, CPUs: set, Exclusive: true})
	}
	pauses, err := n.others(known)
	if err != nil {
		return nil, err
	}
	return sets, errors.Join(invariants.CheckOccupants(append(occupants, pauses...))...)
}

// hasRole returns an error if the kernel has another CPU set for the container or one of its processes.
func (n *node) hasRole(c guestnode.Container, role string) error {
	kind, number, _ := strings.Cut(role, " ")
	switch kind {
	case "shared":
		if !c.Effective.Equal(shared()) {
			return fmt.Errorf("it runs on CPUs %s; want the shared pool", c.Effective)
		}
	case "own", "pool":
		if strconv.Itoa(c.Effective.Len()) != number || !c.Effective.IsSubsetOf(guaranteed()) {
			return fmt.Errorf("it runs on CPUs %s; want %s of %s", c.Effective, number, guaranteed())
		}
	default:
		return fmt.Errorf("%q is not a role", role)
	}
	processes, err := n.processes(c.Path)
	if err != nil {
		return err
	}
	if len(processes) == 0 {
		return errors.New("it has no process")
	}
	for _, pid := range processes {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		if allowed := strings.TrimSpace(list); allowed != c.Effective.String() {
			return fmt.Errorf("process %d may run on %s; cpuset.cpus.effective is %s", pid, allowed, c.Effective)
		}
	}
	return nil
}

// others returns the CPUs of the cgroups of pause containers.
func (n *node) others(known map[cgroup.Path]bool) (occupants []invariants.Occupant, err error) {
	err = walk.Cgroups(n.FS, "kubepods.slice", func(p cgroup.Path) error {
		if known[p] || !strings.HasSuffix(string(p), ".scope") {
			return nil
		}
		processes, err := n.processes(p)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(processes) == 0 {
			return nil // it has ended
		}
		if err != nil {
			return err
		}
		if st, err := n.FS.Read(p); err == nil {
			occupants = append(occupants, invariants.Occupant{Name: string(p), CPUs: st.Effective})
		}
		return nil
	})
	return occupants, err
}

func (n *node) processes(p cgroup.Path) (pids []int, err error) {
	text, err := n.FS.ReadFile(p, "cgroup.procs")
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// end ends a container with exit status 0.
func (n *node) end(pod, name string) {
	n.Helper()
	c, err := n.Find(pod, name)
	if err != nil {
		n.Fatal(err)
	}
	processes, err := n.processes(c.Path)
	if err != nil || len(processes) == 0 {
		n.Fatalf("processes of %s/%s: %v, %v", pod, name, processes, err)
	}
	for _, pid := range processes {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			n.Fatal(err)
		}
	}
}
