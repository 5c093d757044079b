//go:build guest

package daemon_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// belongs says where the pods of manifest.EveryKind belong that get no CPUs of their own.
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

	n.run("systemctl", "daemon-reload")
	n.still("daemon-reload", wants...)
	n.invariants()

	n.run("systemctl", "restart", "kubelet")
	n.still("restart of the kubelet", wants...)
	n.invariants()

	n.run("systemctl", "restart", "containerd")
	n.eventually("runtime", func() error { _, err := n.containers(); return err })
	n.still("restart of containerd", wants...)
	n.invariants()
}

// pauseContainers holds the pods' sandboxes against where they should be.
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
