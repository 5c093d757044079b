//go:build e2e

package e2e_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestLayout installs the DaemonSet on a node with layouts of other distributions. /etc is read-only, and only the kubelet's mount namespace has its
// configuration. Another runtime answers at the default socket. A pod contains a static kubelet.
func TestLayout(t *testing.T) {
	c := start(t, "8c2n")
	c.bring(t)
	install := read(t, "docs/how-to/install.md")
	install.follow(t, c, "ctr --namespace k8s.io images import cpupoold-image.tar")
	c.namespace(t, "apps", "")
	c.machines[0].changeLayout(t)
	c.startNestedKubelet(t)

	install.follow(t, c, "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml", "kubectl create -f deploy/config.yaml",
		"kubectl --namespace cpupoold rollout status daemonset cpupoold")
	c.shows(t, nodeName, advertised(0))
	c.own(t, "whole", cpuset.Range(4, 7))
	t.Run("files of the kubelet", func(t *testing.T) { c.readsKubeletFiles(t) })

	read(t, "docs/how-to/uninstall.md").follow(t, c, "kubectl --namespace cpupoold delete daemonset cpupoold",
		"kubectl apply -f deploy/uninstall/restore.yaml", "kubectl --namespace cpupoold rollout status daemonset cpupoold-restore")
	if sets := c.run(t, "sh", "-euc", "find /sys/fs/cgroup/kubepods.slice -name cpuset.cpus.effective -exec cat {} + | sort -u"); sets != "0-7" {
		t.Errorf("after restore, cgroups of pods have the CPUs %q; want 0-7", sets)
	}
}

// changeLayout restarts the runtime with another socket, and the kubelet in its own mount namespace. From then on /etc is read-only. As on
// Talos, /etc/kubernetes and /etc/cni stay writable.
func (m *machine) changeLayout(t *testing.T) {
	t.Helper()
	m.bring(t, "testdata/layout/etc", "/etc")
	m.run(t, "sh", "-euc", `
		systemctl daemon-reload
		systemctl stop kubelet
		cp -r /etc/kubernetes /var/lib/kubelet-etc
		mv /var/lib/kubelet/config.yaml /var/lib/kubelet-etc/kubelet.yaml
		sed -i 's|^containerRuntimeEndpoint:.*|containerRuntimeEndpoint: unix:///run/kubernetes/containerd.sock|' /var/lib/kubelet-etc/kubelet.yaml
		echo 'reservedSystemCPUs: "0"' >>/var/lib/kubelet-etc/kubelet.yaml
		rm -r /etc/kubernetes/kubelet.conf.d
		for dir in /etc /etc/kubernetes /etc/cni; do mount --bind $dir $dir; done
		mount -o remount,bind,ro /etc
		mkdir /run/kubernetes
		systemctl restart containerd
		systemctl start other-containerd kubelet`)
	if out, err := m.Run(t.Context(), "sh", "-c", "nsenter --mount --target $(pidof kubelet) mkdir /etc/cpupoold"); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
		t.Fatalf("make a directory in /etc of the kubelet: %s, %v; want it read-only", out, err)
	}
}

// startNestedKubelet starts a pod with a static kubelet. Then it restarts the node's kubelet, so that the lower process number is nested.
func (c *cluster) startNestedKubelet(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("testdata/layout/nested.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.plane.write(t, "nested.yaml", string(text))
	c.run(t, "mkdir", "/sys/fs/cgroup/nested")
	c.kubectl(t, "kubectl apply -f nested.yaml")
	c.running(t, "apps", "nested")
	c.run(t, "systemctl", "restart", "kubelet")
	lowest := "$(pidof kubelet | tr ' ' '\n' | sort -n | head -n 1)"
	state := c.run(t, "sh", "-euc", "cat /proc/"+lowest+"/root/var/lib/kubelet/cpu_manager_state")
	if !strings.Contains(state, `"policyName":"static"`) {
		t.Fatalf("state of the kubelet with the lowest process number = %s; want the policy static", state)
	}
}

// readsKubeletFiles changes files that only the kubelet can see, and expects the findings of check in the daemon's pod.
func (c *cluster) readsKubeletFiles(t *testing.T) {
	const dir, dropIn = "/etc/kubernetes/kubelet.conf.d", "/etc/kubernetes/kubelet.conf.d/layout.conf"
	for _, pid := range append(strings.Fields(c.run(t, "pidof", "cpupoold")), "1") {
		if _, err := c.machines[0].Run(t.Context(), "test", "!", "-e", "/proc/"+pid+"/root"+dir); err != nil {
			t.Errorf("process %s sees %s; want only the kubelet to see it", pid, dir)
		}
	}
	change := func(lines ...string) {
		t.Helper()
		text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + strings.Join(lines, "\n") + "\n"
		c.run(t, "sh", "-euc", `printf %s "$0" >/var/lib/kubelet-etc/kubelet.conf.d/layout.conf`, text)
	}
	const differs, static = "warning kubelet-reserved: kubelet.yaml: reservedSystemCPUs is 0,", "refuse kubelet-policy: " + dropIn + ": cpuManagerPolicy is static"
	c.finds(t, []string{differs}, []string{"kubelet-policy", "runtime", "nri"})
	change(`reservedSystemCPUs: "0-1"`)
	c.finds(t, nil, []string{"kubelet-reserved", "kubelet-policy"})
	change(`reservedSystemCPUs: "0-1"`, "cpuManagerPolicy: static")
	c.finds(t, []string{static}, []string{"kubelet-reserved"})
}

// finds runs check in the daemon's pod. A line has to begin with each of begins. No finding may have one of the names in checks.
func (c *cluster) finds(t *testing.T, begins, checks []string) {
	t.Helper()
	out := c.kubectl(t, "kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold check || test $? = 3")
	var lines []string // without the alignment of columns
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	for _, begin := range begins {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, begin) }) {
			t.Errorf("check lacks a line that begins with %q:\n%s", begin, out)
		}
	}
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && slices.Contains(checks, strings.TrimSuffix(fields[1], ":")) {
			t.Errorf("check has the finding %q; want none of %v", line, checks)
		}
	}
}
