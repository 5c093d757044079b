//go:build guest

package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// belongs returns the expected pools of the pods of manifest.EveryKind without exclusive
// CPUs.
func belongs() []want {
	return []want{
		{pod: "agent", container: "app", cpus: "0-1", weight: 59}, // 512 shares, as runc 1.3.2 and later convert them
		{pod: "impostor", container: "app", cpus: "2-3"},
		{pod: "besteffort", container: "app", cpus: "2-3"},
		{pod: "burstable", container: "app", cpus: "2-3"},
		{pod: "fractional", container: "app", cpus: "2-3"},
		{pod: "mixed", container: "side", cpus: "2-3"},
	}
}

func TestPlacement(t *testing.T) {
	n := newNode(t)
	n.startDaemon(pools)
	n.apply(manifest.EveryKind()...)
	wants := belongs()
	n.placed(wants...)
	for _, e := range []want{{pod: "exclusive", container: "app"}, {pod: "mixed", container: "fast"}} {
		wants = append(wants, n.ownCPUs(e))
	}
	n.quiet()
	n.invariants()
	n.pauseContainers(map[string]string{"agent": "0-1", "besteffort": "2-3", "exclusive": "2-3"})

	n.checkRecorded(wants...)
	n.run("systemctl", "daemon-reload")
	n.still("daemon-reload", wants...)
	n.invariants()

	n.kubeletWrites(func() { n.run("systemctl", "restart", "kubelet") })
	n.still("restart of the kubelet", wants...)
	n.invariants()

	// A kubelet that reconnects to a slow runtime creates the pod again. That is not part of this restart.
	n.run("systemctl", "stop", "kubelet")
	n.run("systemctl", "restart", "containerd")
	n.eventually("runtime", func() error { _, err := n.containers(); return err })
	n.still("restart of containerd", wants...)
	n.invariants()
}

// pauseContainers compares the CPUs of the pods' sandboxes with the expected ones.
func (n *node) pauseContainers(wants map[string]string) {
	n.Helper()
	pods, _, err := n.client.List(context.Background())
	if err != nil {
		n.Fatal(err)
	}
	for _, p := range pods {
		for name, cpus := range wants {
			if p.Name != name+"-node" || !p.Ready {
				continue
			}
			full, err := n.client.PodStatus(context.Background(), p.ID)
			if err != nil {
				n.Fatal(err)
			}
			path, err := cgroup.ContainerPath(full.CgroupsPath, cgroup.DriverSystemd)
			if err != nil {
				n.Fatal(err)
			}
			st, err := n.fs.Read(path)
			if err != nil || st.Effective.String() != cpus {
				n.Error(fmt.Errorf("pause container of %s runs on %s, %w; want %s", name, st.Effective, err, cpus))
			}
			delete(wants, name)
		}
	}
	for name := range wants {
		n.Errorf("pod %s has no sandbox", name)
	}
}

// checkRecorded compares systemd's recorded values with the desired ones.
func (n *node) checkRecorded(wants ...want) {
	n.Helper()
	for _, w := range wants {
		c, err := n.find(w.pod, w.container)
		if err != nil {
			n.Fatal(err)
		}
		got := strings.ReplaceAll(strings.TrimSpace(n.run("systemctl", "show", "-P", "AllowedCPUs", c.path.Base())), " ", ",")
		if got != w.cpus {
			n.Errorf("AllowedCPUs of %s/%s = %q; want %q", w.pod, w.container, got, w.cpus)
		}
	}
}

// kubeletWrites calls restart and waits until the kubelet has made its writes of each minute.
func (n *node) kubeletWrites(restart func()) {
	n.Helper()
	const slice, odd = "kubepods.slice/kubepods-burstable.slice", 4321
	if err := n.fs.Write(slice, cgroup.FileWeight, fmt.Sprint(odd)); err != nil {
		n.Fatal(err)
	}
	restart()
	n.eventually("the kubelet's weight of "+slice, func() error {
		st, err := n.fs.Read(slice)
		if err == nil && st.Weight == odd {
			err = fmt.Errorf("cpu.weight is still %d", odd)
		}
		return err
	})
}
