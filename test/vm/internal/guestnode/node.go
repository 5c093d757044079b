// Package guestnode is the node of tests that run in a guest: commands, files, static pods, and the daemon's unit. A step that exceeds
// NodeTimeout ends the test and logs the state of the node.
package guestnode

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// NodeTimeout is the timeout of each step on the node: it is emulated, and shares the host's CPUs with other guests.
const NodeTimeout = 5 * time.Minute

// Node is the guest as a test uses it.
type Node struct {
	*testing.T

	FS      *cgroup.FS
	Client  *cri.Client
	Runtime Runtime
}

// New makes sure that the node is as after boot, now and again at the end of the test: kubelet and runtime run, no daemon, no pods.
func New(t *testing.T) *Node {
	t.Helper()
	tree, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := ReadRuntime()
	if err != nil {
		t.Fatal(err)
	}
	client, err := cri.Dial(runtime.Socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{T: t, FS: tree, Client: client, Runtime: runtime}
	t.Cleanup(func() {
		n.StopDaemon()
		n.Run("systemctl", "start", runtime.Unit, "kubelet")
		n.WithdrawAll()
		if err := os.RemoveAll("/var/lib/cpupoold"); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	n.WithdrawAll()
	return n
}

// Run runs a command and returns its output.
func (n *Node) Run(name string, args ...string) string {
	n.Helper()
	out, err := n.Try(name, args...)
	if err != nil {
		n.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Run for a command that may fail.
func (n *Node) Try(name string, args ...string) (string, error) {
	ctx, cancel := requestContext()
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// requestContext returns a context for one request. Cleanups need it, because the context of the test has
// ended then.
func requestContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), NodeTimeout)
}

// Eventually waits until cond returns nil.
func (n *Node) Eventually(what string, cond func() error) {
	n.Helper()
	n.Every(100*time.Millisecond, what, cond)
}

// Every is Eventually for an expensive cond.
func (n *Node) Every(period time.Duration, what string, cond func() error) {
	n.Helper()
	deadline := time.Now().Add(NodeTimeout)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("timed out waiting for %s: %v\n%s", what, err, n.Evidence())
		}
		<-tick.C
	}
}

// Write replaces a file atomically: neither the kubelet nor the daemon may see half of it. The kubelet treats every file of its directory
// as a pod at once, except files whose names begin with a dot. Without the dot it would start the pod of the temporary file, and end it.
func (n *Node) Write(name, content string) {
	n.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		n.Fatal(err)
	}
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name))
	if err := os.WriteFile(temp, []byte(content), 0o644); err != nil {
		n.Fatal(err)
	}
	if err := os.Rename(temp, name); err != nil {
		n.Fatal(err)
	}
}

// Dump prints the cgroups of pods.
func (n *Node) Dump() string {
	var b strings.Builder
	top := cgroup.Path("kubepods.slice")
	if n.Runtime.Driver == cgroup.DriverCgroupfs {
		top = "kubepods"
	}
	err := walk.Cgroups(n.FS, top, func(p cgroup.Path) error {
		if st, err := n.FS.Read(p); err == nil {
			fmt.Fprintf(&b, "%s cpus=%q effective=%s weight=%d max=%d/%d\n", p, st.CPUs, st.Effective, st.Weight, st.Quota, st.Period)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// Evidence returns the state that explains a failed test.
func (n *Node) Evidence() string {
	var b strings.Builder
	b.WriteString(n.Dump())
	for _, unit := range []string{"cpupoold", "kubelet", n.Runtime.Unit} {
		log, _ := n.Try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", unit)
		fmt.Fprintf(&b, "\nlog of %s:\n%s", unit, log)
	}
	return b.String()
}
