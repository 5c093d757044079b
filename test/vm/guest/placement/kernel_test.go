//go:build guest

package placement_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// kernelSet returns where the kernel lets a cgroup's processes run: cpuset.cpus.effective, which each of them must agree with.
func (n *node) kernelSet(p cgroup.Path) (cpuset.Set, error) {
	text, err := n.FS.ReadFile(p, "cpuset.cpus.effective")
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return cpuset.Set{}, err
	}
	pids, err := n.FS.ReadFile(p, "cgroup.procs")
	if err != nil {
		return cpuset.Set{}, err
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			return cpuset.Set{}, err
		}
		_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		if allowed := strings.TrimSpace(list); allowed != set.String() {
			return cpuset.Set{}, fmt.Errorf("Cpus_allowed_list of process %s = %s; cpuset.cpus.effective = %s", pid, allowed, set)
		}
	}
	return set, nil
}

// name is the name of a container: POD/CONTAINER.
type name string

// expectations are the expected CPUs of containers, by their names.
type expectations map[name]rule

// place is the cgroup of a container, with its CPUs.
type place struct {
	path cgroup.Path
	cpus cpuset.Set
}

// meets waits until the kernel has every container on its CPUs. Then it checks all processes in pods, pause containers too, against
// invariants 1 and 2 of ARCHITECTURE.md. It returns the containers' CPUs.
func (n *node) meets(want expectations) map[name]cpuset.Set {
	n.Helper()
	n.Eventually("placement", func() error {
		_, err := n.placed(want)
		return err
	})
	plan := n.Settled().Plan
	places, err := n.placed(want)
	if err != nil {
		n.Fatalf("after the daemon has settled: %v\n%s", err, n.Evidence())
	}
	codes := make(map[name]string)
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.Refused != nil {
				codes[name(n.ShortName(pod.Name)+"/"+c.Name)] = c.Refused.Code
			}
		}
	}
	sets := make(map[name]cpuset.Set)
	owners := make(map[cgroup.Path]bool)
	for who, r := range want {
		if codes[who] != r.code {
			n.Errorf("%s was refused with code %q; want %q", who, codes[who], r.code)
		}
		sets[who], owners[places[who].path] = places[who].cpus, r.exclusive()
		n.Logf("%s runs on %s", who, sets[who])
	}
	n.invariants(owners)
	return sets
}

// placed returns where containers run, and an error if that is not where they must be.
func (n *node) placed(want expectations) (map[name]place, error) {
	running, err := n.Containers()
	if err != nil {
		return nil, err
	}
	places := make(map[name]place)
	for _, c := range running {
		who := name(n.ShortName(c.Pod.Name) + "/" + c.Name)
		if _, known := want[who]; !known || !c.Pod.Ready {
			continue
		}
		cpus, err := n.kernelSet(c.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", who, err)
		}
		places[who] = place{c.Path, cpus}
	}
	shared := n.shared
	if n.carves {
		// The shared pool has the remaining CPUs.
		shared = n.Online.Difference(n.management)
		for who, r := range want {
			if r.exclusive() {
				shared = shared.Difference(places[who].cpus)
			}
		}
	}
	for who, r := range want {
		p, there := places[who]
		if !there {
			return nil, fmt.Errorf("%s does not run", who)
		}
		if err := n.check(r, p.cpus, shared); err != nil {
			return nil, fmt.Errorf("%s %w", who, err)
		}
	}
	return places, nil
}

// invariants compares the CPUs of all processes of all pods with each other. owners lists the cgroups with exclusive CPUs, each of
// which must have processes.
func (n *node) invariants(owners map[cgroup.Path]bool) {
	n.Helper()
	var scopes []string
	for _, pattern := range []string{"*.slice/*.scope", "*.slice/*.slice/*.scope"} {
		found, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/" + pattern)
		if err != nil {
			n.Fatal(err)
		}
		scopes = append(scopes, found...)
	}
	var occupants []invariants.Occupant
	for _, dir := range scopes {
		p := cgroup.Path(strings.TrimPrefix(dir, "/sys/fs/cgroup/"))
		set, err := n.kernelSet(p)
		if gone(err) {
			continue
		}
		if err != nil {
			n.Errorf("%s: %v", p, err)
			continue
		}
		occupants = append(occupants, invariants.Occupant{Name: string(p), CPUs: set, Exclusive: owners[p]})
	}
	if len(occupants) < len(owners) {
		n.Errorf("%d cgroups with processes; there are %d containers", len(occupants), len(owners))
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		n.Errorf("%v\n%s", err, n.Evidence())
	}
}
