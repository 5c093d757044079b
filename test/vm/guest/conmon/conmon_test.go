//go:build guest

package conmon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// monitors puts conmon into the pod's slice. With the systemd driver, CRI-O takes a slice of the host otherwise.
const monitors = `[crio.runtime.runtimes.runc]
runtime_path = "/usr/local/bin/runc"
monitor_cgroup = "pod"
`

const monitorsFile = "/etc/crio/crio.conf.d/50-conmon.conf"

const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7}
`

// node is a guest with CRI-O.
type node struct{ *guestnode.Node }

// TestConmon checks that the monitors of exclusive and burstable pods run in the shared pool, and the one of a management pod on the management
// CPUs. A restart of the daemon changes nothing, the daemon sets no property of their units, and restore gives them their CPUs back.
func TestConmon(t *testing.T) {
	n := &node{guestnode.New(t)}
	n.Write(monitorsFile, monitors)
	t.Cleanup(func() {
		n.WithdrawAll()
		if err := os.Remove(monitorsFile); err != nil {
			t.Error(err)
		}
		n.Run("systemctl", "restart", "crio")
	})
	n.Run("systemctl", "restart", "crio")
	all, shared, management := cpuset.Range(0, 7), cpuset.Range(2, 3), cpuset.Range(0, 1)

	n.Apply(pod("before", ""))
	n.monitorRunsOn("before", all)
	n.StartDaemon(config)
	n.monitorRunsOn("before", shared)
	n.Apply(pod("du", "2"), pod("web", ""), platform())
	n.Eventually("exclusive CPUs of du", func() error {
		c, err := n.Find("du", "app")
		if err == nil && (c.Effective.Len() != 2 || !c.Effective.IsSubsetOf(cpuset.Range(4, 7))) {
			err = fmt.Errorf("it runs on %s", c.Effective)
		}
		return err
	})
	where := map[string]cpuset.Set{"before": shared, "du": shared, "web": shared, "platform": management}
	for name, cpus := range where {
		n.monitorRunsOn(name, cpus)
		n.hasNoProperty(name)
	}
	n.reports(where)

	n.Run("systemctl", "restart", "cpupoold")
	for name, cpus := range where {
		n.monitorRunsOn(name, cpus)
	}
	n.StopDaemon()
	n.Run("cpupoold", "restore")
	for name := range where {
		n.monitorRunsOn(name, all)
	}
}

// monitor returns the cgroup of the monitor of a pod's container.
func (n *node) monitor(pod string) (cgroup.State, error) {
	c, err := n.Find(pod, "app")
	if err != nil {
		return cgroup.State{}, err
	}
	st, err := n.FS.Read(c.Path.Parent().Join("crio-conmon-" + c.ID + ".scope"))
	if err == nil && !st.Populated {
		err = errors.New("no process is in the cgroup of its monitor")
	}
	return st, err
}

func (n *node) monitorRunsOn(pod string, want cpuset.Set) {
	n.Helper()
	n.Eventually("monitor of "+pod+" on "+want.String(), func() error {
		st, err := n.monitor(pod)
		if err == nil && !st.Effective.Equal(want) {
			err = fmt.Errorf("it runs on %s", st.Effective)
		}
		return err
	})
}

// hasNoProperty checks that systemd has no cpuset of the unit of a pod's monitor.
func (n *node) hasNoProperty(pod string) {
	n.Helper()
	st, err := n.monitor(pod)
	if err != nil {
		n.Error(err)
		return
	}
	if got := strings.TrimSpace(n.Run("systemctl", "show", "--property=AllowedCPUs", st.Path.Base())); got != "AllowedCPUs=" {
		n.Errorf("unit of the monitor of %s = %s; want no AllowedCPUs", pod, got)
	}
}

// reports checks that the status contains the monitors of all pods with their CPUs.
func (n *node) reports(where map[string]cpuset.Set) {
	n.Helper()
	n.Eventually("status with the monitors", func() error {
		var s inspect.Status
		if err := json.Unmarshal([]byte(n.Run("cpupoold", "status", "-o", "json")), &s); err != nil {
			return fmt.Errorf("decode status: %w", err)
		}
		found := make(map[string]bool)
		for _, g := range s.Auxiliary {
			_, full, _ := strings.Cut(g.Pod, "/")
			if name := n.ShortName(full); g.Kind == "monitor" && g.CPUs.Equal(where[name]) {
				found[name] = true
			}
		}
		if len(found) != len(where) {
			return fmt.Errorf("it has the monitors of %v: %+v", found, s.Auxiliary)
		}
		return nil
	})
}

// pod is a Guaranteed pod with whole CPUs, or without CPUs a burstable one.
func pod(name, cpu string) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: cpu, Memory: "32Mi", Limited: cpu != ""}}}
}

func platform() manifest.Pod {
	return manifest.Pod{
		Name: "platform", Namespace: "kube-system", Containers: []manifest.Container{{Name: "app"}},
		Annotations: map[string]string{
			"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`,
			"resources.workload.openshift.io/app":     `{"cpushares":102}`,
		},
	}
}
