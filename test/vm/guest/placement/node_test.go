//go:build guest

package placement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/daemon"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	configFile = "/etc/cpupoold/config.yaml"
	manifests  = "/etc/kubernetes/manifests"
	runtime    = "/run/containerd/containerd.sock"

	// patience is how long the node may take for anything: it is emulated, and shares its CPUs with other guests.
	patience = 5 * time.Minute
)

// node is the guest as the tests use it.
type node struct {
	*testing.T
	machine
	fs     *cgroup.FS
	client *cri.Client
}

// newNode makes sure that the node is as after boot: kubelet and runtime run, no daemon, no pods.
func newNode(t *testing.T) *node {
	t.Helper()
	tree, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	client, err := cri.Dial(runtime)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{T: t, machine: readMachine(t), fs: tree, client: client}
	t.Cleanup(func() {
		n.run("systemctl", "stop", "cpupoold")
		n.withdrawAll()
		if err := os.RemoveAll("/var/lib/cpupoold"); err != nil {
			t.Error(err)
		}
		_ = client.Close()
	})
	n.withdrawAll()
	return n
}

// run runs a command and returns what it prints.
func (n *node) run(name string, args ...string) string {
	n.Helper()
	out, err := n.try(name, args...)
	if err != nil {
		n.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func (n *node) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// eventually waits until cond returns nil.
func (n *node) eventually(what string, cond func() error) {
	n.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("waited in vain: %s: %v\n%s", what, err, n.evidence())
		}
		<-tick.C
	}
}

// evidence is what one wants to see when a test has failed.
func (n *node) evidence() string {
	var b strings.Builder
	err := n.fs.Walk("kubepods.slice", func(p cgroup.Path) error {
		if st, err := n.fs.Read(p); err == nil {
			fmt.Fprintf(&b, "%s cpus=%q effective=%s\n", p, st.CPUs, st.Effective)
		}
		return nil
	})
	log, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-n", "60", "-u", "cpupoold")
	kubelet, _ := n.try("journalctl", "--no-pager", "-o", "cat", "-n", "20", "-u", "kubelet")
	return fmt.Sprintf("%s%v\nlog of the daemon:\n%s\nlog of the kubelet:\n%s", &b, err, log, kubelet)
}

// write replaces a file at once: neither the kubelet nor the daemon may see half of it.
func (n *node) write(name, content string) {
	n.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(content), 0o644); err != nil {
		n.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		n.Fatal(err)
	}
}

// start starts the daemon's unit with a configuration; systemd waits for its READY.
func (n *node) start(config string) {
	n.Helper()
	n.write(configFile, config)
	_, _ = n.try("systemctl", "reset-failed", "cpupoold") // an error when it has never run
	if out, err := n.try("systemctl", "restart", "cpupoold"); err != nil {
		n.Fatalf("start daemon: %v: %s\n%s", err, out, n.evidence())
	}
}

// apply has the kubelet run static pods, one after the other, so that CPUs are given out in this order.
func (n *node) apply(pods ...manifest.Pod) {
	n.Helper()
	for _, p := range pods {
		// The kubelet knows a static pod by a hash of its manifest, and makes the same one wait longer each time that it comes back.
		p.Annotations = maps.Clone(p.Annotations)
		if p.Annotations == nil {
			p.Annotations = make(map[string]string)
		}
		p.Annotations["cpupoold.test/of"] = n.Name()
		text, err := p.YAML()
		if err != nil {
			n.Fatal(err)
		}
		n.write(filepath.Join(manifests, p.Name+".yaml"), string(text))
		for _, c := range p.Containers {
			n.eventually("start of "+p.Name+"/"+c.Name, func() error { _, err := n.find(p.Name, c.Name); return err })
		}
	}
}

// withdraw has the kubelet end static pods, and waits until their sandboxes are.
func (n *node) withdraw(names ...string) {
	n.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(manifests, name+".yaml")); err != nil {
			n.Fatal(err)
		}
	}
	n.eventually("end of pods", func() error {
		pods, _, err := n.list()
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Ready && slices.Contains(names, static(p)) {
				return fmt.Errorf("pod %s is still there", p.Name)
			}
		}
		return nil
	})
}

func (n *node) withdrawAll() {
	n.Helper()
	files, err := filepath.Glob(manifests + "/*.yaml")
	if err != nil {
		n.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	n.withdraw(names...)
}

// static is the name of a static pod in its manifest: the kubelet appends the node's.
func static(p cri.Pod) string { return strings.TrimSuffix(p.Name, "-node") }

func (n *node) list() ([]cri.Pod, []cri.Container, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.client.List(ctx)
}

// find returns the cgroup of a running container.
func (n *node) find(pod, name string) (cgroup.Path, error) {
	pods, all, err := n.list()
	if err != nil {
		return "", err
	}
	for _, c := range all {
		i := slices.IndexFunc(pods, func(p cri.Pod) bool { return p.ID == c.PodID && p.Ready && static(p) == pod })
		if c.State != cri.Running || c.Name != name || i < 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		full, err := n.client.ContainerStatus(ctx, c.ID)
		if err != nil {
			return "", err
		}
		return cgroup.ContainerPath(full.CgroupsPath, cgroup.DriverSystemd)
	}
	return "", fmt.Errorf("pod %s has no running container %s", pod, name)
}

// plan is what `cpupoold plan` prints.
func (n *node) plan() (daemon.Preview, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "cpupoold", "plan", "-o", "json").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return daemon.Preview{}, fmt.Errorf("cpupoold plan: %w: %s", err, exit.Stderr)
	}
	var p daemon.Preview
	if err := errors.Join(err, json.Unmarshal(out, &p)); err != nil {
		return daemon.Preview{}, fmt.Errorf("cpupoold plan: %w: %s", err, out)
	}
	return p, nil
}

// settled waits until the daemon has nothing left to write, and returns the plan.
func (n *node) settled() (p daemon.Preview) {
	n.Helper()
	n.eventually("plan without writes", func() (err error) {
		if p, err = n.plan(); err != nil {
			return err
		}
		if len(p.Writes) > 0 || len(p.Deferred) > 0 {
			return fmt.Errorf("still to do: %v %v", p.Writes, p.Deferred)
		}
		return nil
	})
	return p
}

// gone says that a cgroup has ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
