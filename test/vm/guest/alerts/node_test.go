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

// inDaemon runs a script that changes mounts in the mount namespace of the daemon's unit only.
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
