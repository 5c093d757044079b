//go:build guest

package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// withOptions returns goodConfig with more keys in its guaranteed pool, followed by
// rest.
func withOptions(keys, rest string) string {
	return strings.TrimSuffix(goodConfig, "\n") + "\n  " + keys + "\n" + rest
}

func optionCases() []broken {
	const restricted = "options: {topology-policy: restricted}"
	return []broken{
		{
			name: "kubelet that aligns more strictly", script: "edit " + kubeletConfig + " '$a topologyManagerPolicy: single-numa-node'",
			want: []string{"warning kubelet-topology: topologyManagerPolicy is single-numa-node"},
		},
		{
			name: "kubelet that does not tell the nodes of memory", script: "edit " + kubeletConfig + " '$a topologyManagerPolicy: restricted'",
			config: withOptions(restricted, ""),
			want:   []string{"info kubelet-memory: memoryManagerPolicy is None", "info kubelet-topology: topologyManagerPolicy is restricted"},
		},
		{
			name: "no PodResources socket", script: "hide /var/lib/kubelet/pod-resources",
			want: []string{"info pod-resources: /var/lib/kubelet/pod-resources/kubelet.sock does not exist"},
		},
		{
			name: "no PodResources socket, but hints are demanded", config: withOptions(restricted, ""),
			script: "hide /var/lib/kubelet/pod-resources\nedit " + kubeletConfig + " '$a topologyManagerPolicy: restricted\\nmemoryManagerPolicy: Static'",
			want:   []string{"error pod-resources: topology-policy restricted cannot be enforced", "info kubelet-topology: restricted"},
		},
		{
			name: "isolated CPUs required of a kernel without", config: withOptions("options: {isolated-cpus: require}", ""),
			want: []string{"error option-isolated: booted without isolcpus="},
		},
		{
			name: "kind of core on a machine with one kind", config: withOptions("options: {core-type: performance}", ""),
			want: []string{"info option-core-type: one kind of core"},
		},
	}
}

// unitCases use units that exist for the length of a case.
func unitCases() []broken {
	const unit = "check-du.service"
	config := goodConfig + "units:\n  " + unit + ": {cpus: 2}\n"
	return []broken{
		{
			name: "no such unit", config: config,
			want: []string{"warning units: systemd has no such unit"},
		},
		{
			name: "unit with CPUs of another owner", config: config, setup: func(t *testing.T) addition {
				makeUnit(t, unit, "[Service]\nExecStart=/bin/sleep infinity\n", "[Service]\nAllowedCPUs=6-7\n")
				return addition{}
			},
			want: []string{"warning units-settings: " + unit + ".d/10-check.conf: sets AllowedCPUs=6-7"},
		},
		{
			name: "unit in a slice without its CPUs", config: config, setup: func(t *testing.T) addition {
				makeUnit(t, unit, "[Service]\nExecStart=/bin/sleep infinity\nSlice=check.slice\n", "")
				command(t, "systemctl", "start", "check.slice")
				t.Cleanup(func() { command(t, "systemctl", "revert", "check.slice") })
				t.Cleanup(func() { command(t, "systemctl", "stop", "check.slice") })
				command(t, "systemctl", "set-property", "--runtime", "check.slice", "AllowedCPUs=0-5")
				return addition{}
			},
			want: []string{"error units-slices: check.slice/cpuset.cpus.effective: is 0-5"},
		},
	}
}

// hostCases are about the guest's own services.
func hostCases() []broken {
	return []broken{
		{
			name: "host services everywhere",
			want: []string{"warning host-slices: host services in init.scope, system.slice"},
		},
		{
			name: "host services in no pool", config: strings.Replace(goodConfig, "cpus: 0-1", "cpus: all", 1) + "hostSlices: {enabled: true}\n",
			want: []string{"warning host-slices: no management pool management with a list of CPUs exists"},
		},
		{
			name: "host services that will move", config: goodConfig + "hostSlices: {enabled: true}\n",
			want: []string{"info host-slices: init.scope, system.slice"},
		},
	}
}

// runningCases run a pod.
func runningCases() []broken {
	return []broken{
		{
			name: "container on all CPUs", setup: func(t *testing.T) addition {
				n := guestnode.New(t)
				n.Apply(manifest.Pod{Name: "moves", Namespace: "default", Containers: []manifest.Container{{Name: "app"}}})
				n.Eventually("running container", func() error {
					_, err := n.Find("moves", "app")
					return err
				})
				return addition{}
			},
			want: []string{"info running-containers: CPUs 0-7 become 2-3 for 1 container: default/moves"},
		},
	}
}

// makeUnit installs a unit, with a drop-in if there is one, until the end of the test. It is not started.
func makeUnit(t *testing.T, name, text, dropIn string) {
	t.Helper()
	const dir = "/run/systemd/system"
	t.Cleanup(func() { command(t, "systemctl", "daemon-reload") })
	t.Cleanup(func() {
		for _, file := range []string{name, name + ".d"} {
			if err := os.RemoveAll(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
	})
	write(t, filepath.Join(dir, name), text)
	if dropIn != "" {
		if err := os.Mkdir(filepath.Join(dir, name+".d"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name+".d", "10-check.conf"), dropIn)
	}
	command(t, "systemctl", "daemon-reload")
}
