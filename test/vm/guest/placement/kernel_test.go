//go:build guest

package placement_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// kernelSet returns where the kernel lets a cgroup's processes run: cpuset.cpus.effective, which each of them must agree with.
func (n *node) kernelSet(p cgroup.Path) (cpuset.Set, error) {
	text, err := n.fs.ReadFile(p, "cpuset.cpus.effective")
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return cpuset.Set{}, err
	}
	pids, err := n.fs.ReadFile(p, "cgroup.procs")
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

// name is that of a container: POD/CONTAINER.
type name string

// expectations are what containers' CPUs must be like, by their names.
type expectations map[name]rule

// meets waits until the kernel has every container where it must be, and then holds everybody who runs in a pod, pause containers too,
// against the invariants of ARCHITECTURE.md: 1 and 2. It returns the containers' CPUs.
func (n *node) meets(want expectations) map[name]cpuset.Set {
	n.Helper()
	var sets map[name]cpuset.Set
	n.eventually("placement", func() (err error) {
		sets, err = n.placed(want)
		return err
	})
	plan := n.settled().Plan
	if again, err := n.placed(want); err != nil {
		n.Errorf("after the daemon has settled: %v\n%s", err, n.evidence())
	} else {
		sets = again
	}
	codes := make(map[name]string)
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.Refused != nil {
				codes[name(strings.TrimSuffix(pod.Name, "-node")+"/"+c.Name)] = c.Refused.Code
			}
		}
	}
	for who, r := range want {
		if codes[who] != r.code {
			n.Errorf("%s was refused with code %q; want %q", who, codes[who], r.code)
		}
		n.Logf("%s runs on %s", who, sets[who])
	}
	n.invariants(want)
	return sets
}

// placed returns where containers run, and an error if that is not where they must be.
func (n *node) placed(want expectations) (map[name]cpuset.Set, error) {
	sets, shared := make(map[name]cpuset.Set), n.shared
	for who := range want {
		pod, container, _ := strings.Cut(string(who), "/")
		p, err := n.find(pod, container)
		if err != nil {
			return nil, err
		}
		if sets[who], err = n.kernelSet(p); err != nil {
			return nil, fmt.Errorf("%s: %w", who, err)
		}
	}
	if n.carves {
		// The shared pool has what nobody else has.
		shared = n.Online.Difference(n.management)
		for who, r := range want {
			if r.exclusive() {
				shared = shared.Difference(sets[who])
			}
		}
	}
	for who, r := range want {
		if err := n.check(r, sets[who], shared); err != nil {
			return nil, fmt.Errorf("%s %w", who, err)
		}
	}
	return sets, nil
}

// invariants holds all processes of all pods against each other.
func (n *node) invariants(want expectations) {
	n.Helper()
	owners := make(map[string]bool)
	for who, r := range want {
		pod, container, _ := strings.Cut(string(who), "/")
		p, err := n.find(pod, container)
		if err != nil {
			n.Fatal(err)
		}
		owners[string(p)] = r.exclusive()
	}
	var scopes []string
	for _, pattern := range []string{"*.slice/*.scope", "*.slice/*.slice/*.scope"} {
		found, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/" + pattern)
		if err != nil {
			n.Fatal(err)
		}
		scopes = append(scopes, found...)
	}
	var claims []cpuset.Claim
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
		claims = append(claims, cpuset.Claim{Name: string(p), CPUs: set, Exclusive: owners[string(p)]})
	}
	if len(claims) < len(want) {
		n.Errorf("%d cgroups with processes; there are %d containers", len(claims), len(want))
	}
	for _, err := range cpuset.CheckClaims(claims) {
		n.Errorf("%v\n%s", err, n.evidence())
	}
}
