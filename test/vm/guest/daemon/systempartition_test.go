//go:build guest

package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	cpupools "github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// systemSlice is the root of the kubelet's system partition.
const systemSlice = "kubepods-system.slice"

// TestSystemPartition makes the kubelet's system partition by hand, because Kubernetes 1.37 does not make it. Without a cpuset of the partition,
// the daemon places the pods in it as all others. With a cpuset it writes nothing in the partition.
func TestSystemPartition(t *testing.T) {
	n := newNode(t)
	t.Cleanup(func() { // after the pods in it are removed
		_, _ = n.try("systemctl", "stop", systemSlice) // an error if the test has not made it
		_, _ = n.try("systemctl", "revert", systemSlice)
	})
	r := n.withoutKubelet()
	n.startDaemon(hourly)
	n.nriConnected()

	r.inSystem = true
	owner, shared := r.mustStart(2000, "kube-system", nil), r.mustStart(500, "kube-system", nil)
	management := r.mustStart(100, "kube-system", manifest.Management(nil))
	r.onCPUs(owner, 2)
	n.eventually("pools of pods in the partition", func() error {
		return errors.Join(r.runsOn(shared, "2-3", 0), r.runsOn(management, "0-1", 0))
	})
	n.quiet()
	n.invariants()
	n.systemIs(inspect.SystemPartition{Cgroup: "kubepods.slice/" + systemSlice, Effective: cpuset.Range(0, 7)})
	for _, p := range []pod{owner, shared, management} {
		r.removePod(p)
	}

	// The kubelet sets the cpuset when it starts, and restarts the pods.
	n.run("systemctl", "set-property", "--runtime", systemSlice, "AllowedCPUs=0-2")
	system := []pod{r.mustStart(2000, "kube-system", nil), r.mustStart(500, "kube-system", nil), r.mustStart(100, "kube-system", manifest.Management(nil))}
	r.inSystem = false
	outside := r.mustStart(2000, "default", nil)
	owned, err := cpuset.Parse(r.onCPUs(outside, 2))
	if err != nil {
		t.Fatal(err)
	}
	n.quiet()
	n.invariants()
	for _, p := range system {
		if err := errors.Join(r.runsOn(p, "0-2", 0), unwritten(p.path)); err != nil {
			t.Errorf("%v\n%s", err, n.evidence())
		}
	}
	n.systemIs(inspect.SystemPartition{Cgroup: "kubepods.slice/" + systemSlice, CPUs: cpuset.Range(0, 2), Effective: cpuset.Range(0, 2), StandsDown: true})
	n.systemPlan(len(system), owned)
	s := n.status()
	if !slices.ContainsFunc(s.Problems, func(p inspect.Problem) bool {
		return p.Code == "SystemPartitionAnnotation" && strings.HasSuffix(p.Pod, "/"+system[2].name)
	}) {
		t.Errorf("problems %+v; want the annotation of %s", s.Problems, system[2].name)
	}
	if out, _ := n.try("cpupoold", "check"); !strings.Contains(out, "kubelet's system partition with cpuset 0-2") {
		t.Errorf("check does not report the partition: %s", out)
	}
}

// unwritten returns an error if a cgroup has a cpuset of its own.
func unwritten(p cgroup.Path) error {
	b, err := os.ReadFile("/sys/fs/cgroup/" + string(p) + "/" + cgroup.FileCPUs)
	if err == nil && strings.TrimSpace(string(b)) != "" {
		err = fmt.Errorf("cpuset.cpus of %s is %s; want none", p, b)
	}
	return err
}

// systemIs checks the system partition in the daemon's status.
func (n *node) systemIs(want inspect.SystemPartition) {
	n.Helper()
	n.eventually("the system partition in the status", func() error {
		got := n.status().System
		if got == nil || got.Cgroup != want.Cgroup || !got.CPUs.Equal(want.CPUs) || !got.Effective.Equal(want.Effective) || got.StandsDown != want.StandsDown {
			return fmt.Errorf("%+v; want %+v", got, want)
		}
		return nil
	})
}

// systemPlan compares the effective CPUs of all containers with the plan. Containers of the pool other are in the system partition, and
// none of them has owned CPUs.
func (n *node) systemPlan(others int, owned cpuset.Set) {
	n.Helper()
	found := 0
	for _, pod := range n.plan().Plan.Pods {
		for _, c := range pod.Containers {
			if c.Kind != cpupools.App {
				continue
			}
			got, err := n.find(pod.Name, c.Name)
			switch {
			case err != nil:
				n.Errorf("%s/%s of the plan: %v", pod.Name, c.Name, err)
			case c.Pool != cpupools.Other:
				if !got.Effective.Equal(c.Runs()) {
					n.Errorf("%s/%s runs on %s; the plan has %s", pod.Name, c.Name, got.Effective, c.Runs())
				}
			default:
				found++
				if root, inside := got.path.SystemPartition(); !inside || got.Effective.Overlaps(owned) {
					n.Errorf("%s/%s in %q runs on %s; an owner has %s", pod.Name, c.Name, root, got.Effective, owned)
				}
			}
		}
	}
	if found != others {
		n.Errorf("the plan has %d containers in the pool other; want %d", found, others)
	}
}
