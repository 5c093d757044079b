//go:build guest

package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	ownManifest     = "/etc/kubernetes/cpupoold.yaml" // made of deploy/daemonset.yaml by the host
	restoreManifest = "/etc/kubernetes/cpupoold-restore.yaml"
)

// TestContainer runs the daemon as deploy/daemonset.yaml does, on a node with a read-only /etc.
func TestContainer(t *testing.T) {
	n := newNode(t)
	self := want{pod: "cpupoold", container: "cpupoold", cpus: "0-1"}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the daemon's container:\n%s", n.containerLog())
		}
	})
	kinds := manifest.EveryKind()
	kind := func(name string) manifest.Pod {
		return kinds[slices.IndexFunc(kinds, func(p manifest.Pod) bool { return p.Name == name })]
	}
	// Its mounts are in /run when the daemon's container gets its copy of them.
	n.apply(kind("besteffort"))
	n.eventually("first pod", func() error { _, err := n.find("besteffort", "app"); return err })
	first, err := n.find("besteffort", "app")
	if err != nil {
		t.Fatal(err)
	}

	n.write(configFile, strings.Replace(pools, "[kube-system]", "[kube-system, cpupoold]", 1))
	n.readOnlyEtc()
	n.startContainer()
	n.placed(self, want{pod: "besteffort", container: "app", cpus: "2-3"})
	n.apply(kind("agent"), kind("burstable"), kind("exclusive"))
	wants := []want{self, {pod: "agent", container: "app", cpus: "0-1", weight: 59}, {pod: "burstable", container: "app", cpus: "2-3"}}
	n.placed(wants...)
	wants = append(wants, n.ownCPUs(want{pod: "exclusive", container: "app"}))
	n.quiet()
	n.invariants()
	n.answers("/healthz", http.StatusOK)

	t.Run("sees what a unit sees", func(t *testing.T) {
		outside, err := n.try("cpupoold", "check")
		if err != nil {
			t.Errorf("check on the host: %v", err)
		}
		inside, err := n.try("crictl", "exec", n.self().ID, "/usr/local/bin/cpupoold", "check")
		if err != nil {
			t.Errorf("check in the container: %v", err)
		}
		if d := cmp.Diff(outside, inside); d != "" {
			t.Errorf("findings (-on the host +in the container):\n%s", d)
		}
	})

	t.Run("keeps the unit out", func(t *testing.T) {
		if out, err := n.try("systemctl", "start", "cpupoold"); err == nil {
			t.Errorf("the unit has started next to the container: %s", out)
		}
		log := n.run("journalctl", "--no-pager", "-o", "cat", "-n", "50", "-u", "cpupoold")
		n.stopDaemon() // which systemd would start again and again
		if !strings.Contains(log, "another cpupoold holds the node's lock") {
			t.Errorf("the unit's log lacks the lock:\n%s", log)
		}
	})

	t.Run("keeps no mounts of pods that are gone", func(t *testing.T) {
		mounts := func() string { return n.run("cat", fmt.Sprintf("/proc/%d/mountinfo", n.pid(self))) }
		if !strings.Contains(mounts(), first.ID) {
			t.Fatalf("mounts of the container lack an older pod:\n%s", mounts())
		}
		n.withdraw("besteffort")
		n.eventually("first pod's mounts gone", func() error {
			if strings.Contains(mounts(), first.ID) {
				return errors.New("they are still there")
			}
			return nil
		})
	})

	t.Run("moves no container when it ends and starts again", func(t *testing.T) {
		before := n.self()
		n.run("kill", fmt.Sprint(n.pid(self)))
		n.eventually("another container", func() error {
			if c, err := n.find("cpupoold", "cpupoold"); err != nil || c.ID == before.ID {
				return errors.Join(errors.New("not yet"), err)
			}
			return nil
		})
		n.still("the end of the daemon", wants[1:]...)
		n.answers("/readyz", http.StatusOK)
		n.placed(self)
		n.still("the start of another", wants...)
		n.quiet()
		n.invariants()
		for _, path := range n.containerWrites() {
			if !strings.Contains(path, strings.ReplaceAll(n.self().pod.UID, "-", "_")) {
				t.Errorf("cgroup of the new daemon's writes = %s; want its own pod", path)
			}
		}
	})

	t.Run("is undone by a pod", func(t *testing.T) {
		n.withdraw("cpupoold")
		n.copyManifest("cpupoold-restore", restoreManifest)
		// It begins while the daemon ends, and its other container when the first one is done.
		n.eventually("node restored", func() error { _, err := n.find("cpupoold-restore", "restored"); return err })
		if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("journal after restore: %v; want that it is gone", err)
		}
		n.withdraw("cpupoold-restore")
	})
}

// readOnlyEtc makes /etc read-only until the end of the test, as on Talos. The directory of the kubelet's manifests stays writable.
func (n *node) readOnlyEtc() {
	n.Helper()
	for _, dir := range []string{"/etc", manifests} {
		n.run("mount", "--bind", dir, dir)
		n.Cleanup(func() { n.run("umount", "--lazy", dir) })
	}
	n.run("mount", "-o", "remount,bind,ro", "/etc")
	if err := os.Mkdir("/etc/cpupoold-test", 0o755); !errors.Is(err, syscall.EROFS) {
		n.Fatalf("make a directory in /etc: %v; want %v", err, syscall.EROFS)
	}
}

// startContainer has the kubelet run the daemon and waits until it is ready.
func (n *node) startContainer() {
	n.Helper()
	n.copyManifest("cpupoold", ownManifest)
	n.answers("/readyz", http.StatusOK)
}

// copyManifest has the kubelet run the static pod of a file.
func (n *node) copyManifest(name, file string) {
	n.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		n.Fatal(err)
	}
	n.write(filepath.Join(manifests, name+".yaml"), string(text))
}

// withdraw has the kubelet end a static pod.
func (n *node) withdraw(name string) {
	n.Helper()
	if err := os.Remove(filepath.Join(manifests, name+".yaml")); err != nil {
		n.Fatal(err)
	}
}

// self is the daemon's container.
func (n *node) self() container {
	n.Helper()
	c, err := n.find("cpupoold", "cpupoold")
	if err != nil {
		n.Fatal(err)
	}
	return c
}

// pid is the first process of a container.
func (n *node) pid(w want) int {
	n.Helper()
	c, err := n.find(w.pod, w.container)
	if err != nil {
		n.Fatal(err)
	}
	lists, err := n.processes(c.path)
	if err != nil {
		n.Fatal(err)
	}
	for pid := range lists {
		return pid
	}
	n.Fatalf("%s/%s has no processes", w.pod, w.container)
	return 0
}

// containerLog returns the log of the daemon's newest container.
func (n *node) containerLog() string {
	ctx, cancel := context.WithTimeout(context.Background(), nodeTimeout)
	defer cancel()
	_, all, err := n.client.List(ctx)
	if err != nil {
		return err.Error()
	}
	newest := -1
	for i, c := range all {
		if c.Name == "cpupoold" && (newest < 0 || c.CreatedAt.After(all[newest].CreatedAt)) {
			newest = i
		}
	}
	if newest < 0 {
		return "no container"
	}
	out, err := n.try("crictl", "logs", all[newest].ID)
	if err != nil {
		return err.Error()
	}
	return out
}

// containerWrites are the cgroups that the daemon in its newest container has written to.
func (n *node) containerWrites() []string {
	n.Helper()
	var paths []string
	for line := range strings.Lines(n.containerLog()) {
		var record struct {
			Msg   string
			Write struct{ Path string }
		}
		if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "wrote" {
			paths = append(paths, record.Write.Path)
		}
	}
	if len(paths) == 0 {
		n.Fatalf("the log has no writes:\n%s", n.containerLog())
	}
	return paths
}
