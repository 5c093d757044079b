//go:build guest

package alerts_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
)

// node is the guest as the test uses it.
type node struct {
	*guestnode.Node

	owner  guestnode.Container
	shared []guestnode.Container
	caused map[string]bool // alerts
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{Node: guestnode.New(t), caused: make(map[string]bool)}
}

// inDaemon runs a script that changes mounts as the daemon's unit has them, and nobody else's.
func (n *node) inDaemon(script string) {
	n.Helper()
	pid := strings.TrimSpace(n.Run("systemctl", "show", "--property=MainPID", "--value", "cpupoold"))
	n.Run("nsenter", "-m", "-t", pid, "sh", "-ec", script)
}

func (n *node) path(c guestnode.Container) cgroup.Path {
	n.Helper()
	p, err := cgroup.ContainerPath(c.CgroupsPath, n.Runtime.Driver)
	if err != nil {
		n.Fatal(err)
	}
	return p
}

// online sets a CPU offline, or online.
func (n *node) online(cpu, value string) {
	n.Helper()
	n.writeKernel("/sys/devices/system/cpu/cpu"+cpu+"/online", value)
}

// writeKernel writes to a file of the kernel.
func (n *node) writeKernel(name, value string) {
	n.Helper()
	if err := os.WriteFile(name, []byte(value), 0); err != nil {
		n.Fatal(err)
	}
}

// queueLimit is how many notices of changes the kernel keeps for a program that begins to listen.
const queueLimit = "/proc/sys/fs/inotify/max_queued_events"

// shortQueue makes that few, until the function is called that it returns.
func (n *node) shortQueue() (restore func()) {
	n.Helper()
	before, err := os.ReadFile(queueLimit)
	if err != nil {
		n.Fatal(err)
	}
	n.writeKernel(queueLimit, "64")
	restore = func() { n.writeKernel(queueLimit, strings.TrimSpace(string(before))) }
	n.Cleanup(restore)
	return restore
}

// overflow writes what two cgroups have already, in turn: of the same the kernel tells only once.
func (n *node) overflow() {
	n.Helper()
	for range 100 {
		for _, c := range n.shared[:2] {
			if err := n.FS.Write(n.path(c), cgroup.FileCPUs, c.CPUs.String()); err != nil {
				n.Fatal(err)
			}
		}
	}
}
