//go:build vm

package parts_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm"
)

// limit is generous: emulated CPUs on a busy machine.
const limit = 10 * time.Minute

// TestNode checks that the real parts fit together. A pod of each QoS class runs where the kubelet and the runtime put it on every
// node with systemd cgroups. It outlives a restart of both.
func TestNode(t *testing.T) {
	m := vm.Start(t, vm.Config{Node: true})
	n := node{t, m}
	manifests, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range manifests {
		if err := m.CopyTo(t.Context(), file, "/etc/kubernetes/manifests/"+filepath.Base(file)); err != nil {
			t.Fatal(err)
		}
	}
	running := n.waitRunning(len(manifests))

	t.Run("cgroups", func(t *testing.T) {
		const pod, scope = `pod[0-9a-f]{32}\.slice`, `/cri-containerd-[0-9a-f]{64}\.scope`
		for name, want := range map[string]string{
			"guaranteed": `/kubepods\.slice/kubepods-` + pod + scope,
			"burstable":  `/kubepods\.slice/kubepods-burstable\.slice/kubepods-burstable-` + pod + scope,
			"besteffort": `/kubepods\.slice/kubepods-besteffort\.slice/kubepods-besteffort-` + pod + scope,
		} {
			cgroup := n.proc(t, running[name], "cgroup")
			if !regexp.MustCompile(`^0::` + want + `$`).MatchString(cgroup) {
				t.Errorf("%s: cgroup %q; want %s", name, cgroup, want)
			}
		}
	})
	t.Run("seccomp", func(t *testing.T) {
		// The runtime's default profile is a filter, mode 2 in proc_pid_status(5). Without seccomp runc refuses the pod.
		if status := n.proc(t, running["besteffort"], "status"); !strings.Contains(status, "\nSeccomp:\t2\n") {
			t.Errorf("process of besteffort has no seccomp filter:\n%s", status)
		}
	})
	t.Run("shared process namespace", func(t *testing.T) {
		// The pause program is process 1 of that pod, and so has to reap.
		if status := n.proc(t, running["burstable"], "status"); !regexp.MustCompile(`\nNSpid:\t\d+\t([2-9]|\d\d+)\n`).MatchString(status) {
			t.Errorf("process of burstable is the first of its namespace:\n%s", status)
		}
	})
	t.Run("exec", func(t *testing.T) {
		n.exec(t, "crictl", "exec", running["guaranteed"], "/work", "exit", "0")
	})
	t.Run("restart", func(t *testing.T) {
		for _, unit := range []string{"containerd", "kubelet"} {
			n.exec(t, "systemctl", "restart", unit)
			if diff := cmp.Diff(running, n.running(t.Context(), t)); diff != "" {
				t.Errorf("containers after a restart of %s (-before +after):\n%s", unit, diff)
			}
		}
	})
	t.Run("remove", func(t *testing.T) {
		for name := range running {
			n.exec(t, "rm", "/etc/kubernetes/manifests/"+name+".yaml")
		}
		n.waitRunning(0)
	})
}

type node struct {
	t *testing.T
	m *vm.VM
}

func (n node) exec(t *testing.T, cmd ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := n.m.Run(ctx, cmd...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(cmd, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// proc returns a file of /proc/PID of the container's first process.
func (n node) proc(t *testing.T, id, file string) string {
	t.Helper()
	pid := n.exec(t, "crictl", "inspect", "-o", "go-template", "--template", "{{.info.pid}}", id)
	return n.exec(t, "cat", "/proc/"+pid+"/"+file)
}

// running maps the names of static pods, without the node's name, to the ids of their running containers.
func (n node) running(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	out, err := n.m.Run(ctx, "crictl", "ps", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Containers []struct {
			ID     string
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("read crictl's list: %v", err)
	}
	ids := map[string]string{}
	for _, c := range list.Containers {
		ids[strings.TrimSuffix(c.Labels["io.kubernetes.pod.name"], "-node")] = c.ID
	}
	return ids
}

func (n node) waitRunning(want int) map[string]string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		got := n.running(ctx, n.t)
		if len(got) == want {
			return got
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			n.t.Fatalf("running containers after %v: %v; want %d", limit, got, want)
		}
	}
}
