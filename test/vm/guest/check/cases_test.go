//go:build guest

package check_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// broken is a node with one thing wrong.
type broken struct {
	name   string
	script string                      // breaks the host for cpupoold alone
	config string                      // the configuration; goodConfig if empty
	setup  func(t *testing.T) addition // breaks the host itself, or starts a second program, until the end of the test
	want   []string                    // see matches
}

// addition is appended to the script and the configuration of a case.
type addition struct{ script, config string }

func cases() []broken {
	return slices.Concat(configurationCases(), cgroupCases(), runtimeCases(), kubeletCases(), crioCases(), otherCases(), kernelCases(), poolCases(), optionCases(), unitCases(), hostCases(),
		directoryCases(), runningCases())
}

func configurationCases() []broken {
	return []broken{
		{
			name: "unknown key", config: goodConfig + "exclusive: true\n",
			want: []string{"refuse configuration: exclusive"},
		},
		{
			name: "not YAML", config: "partitions: [",
			want: []string{"refuse configuration: is not YAML"},
		},
		{
			name: "observing", config: goodConfig + "mode: observe\n",
			want: []string{"info mode: is observe"},
		},
	}
}

func cgroupCases() []broken {
	return []broken{
		{
			name: "cgroup v1", script: "mount -t cgroup -o none,name=check none /sys/fs/cgroup",
			want: []string{"refuse cgroup-v2: systemd.unified_cgroup_hierarchy=1"},
		},
		{
			name: "hybrid hierarchy", script: `hide /sys/fs/cgroup
mkdir /sys/fs/cgroup/unified /sys/fs/cgroup/systemd
mount -t cgroup2 none /sys/fs/cgroup/unified
mount -t cgroup -o none,name=check none /sys/fs/cgroup/systemd`,
			want: []string{"refuse cgroup-v2: hybrid"},
		},
		{
			name: "no cgroups", script: "umount --lazy /sys/fs/cgroup",
			want: []string{"refuse cgroup-v2: no cgroup file system"},
		},
		{
			name: "no cpuset controller", script: "replace /sys/fs/cgroup/cgroup.controllers 'cpu io memory pids'",
			want: []string{"refuse controllers: not available: cpuset"},
		},
		{
			name: "controllers not enabled for pods", script: "replace /sys/fs/cgroup/kubepods.slice/cgroup.controllers 'memory pids'",
			want: []string{"error controllers-kubepods: cpu, cpuset"},
		},
	}
}

func runtimeCases() []broken {
	return []broken{
		{
			name: "no runtime", script: "hide /run/containerd",
			want: []string{"error runtime: unix:///run/containerd/containerd.sock does not answer"},
		},
		{
			name: "neither runtime nor kubelet", script: "noKubelet\nhide /run/containerd",
			want: []string{"error runtime: /run/crio/crio.sock"},
		},
		{
			name: "two runtimes", setup: func(t *testing.T) addition {
				socket := relay(t, "/run/containerd/containerd.sock", unchanged)
				return addition{script: "noKubelet\nmkdir -p /run/crio && touch /run/crio/crio.sock && mount --bind " + socket + " /run/crio/crio.sock"}
			},
			want: []string{"error runtime: 2 runtimes answer: unix:///run/containerd/containerd.sock, unix:///run/crio/crio.sock; name one of them as containerRuntimeEndpoint"},
		},
		{
			name: "runtime hangs", config: goodConfig + "containerRuntimeEndpoint: /run/containerd/containerd.sock\n",
			setup: func(t *testing.T) addition {
				command(t, "systemctl", "kill", "--kill-whom=main", "--signal=STOP", "containerd")
				t.Cleanup(func() { command(t, "systemctl", "kill", "--kill-whom=main", "--signal=CONT", "containerd") })
				return addition{}
			},
			want: []string{"error runtime: /run/containerd/containerd.sock does not answer"},
		},
		{
			name: "runtime of the other cgroup driver", script: "edit " + kubeletConfig + " /cgroupDriver:/d\n",
			setup: func(t *testing.T) addition {
				return addition{config: fakeRuntime(t, testnode.RuntimeConfig{Driver: cri.Cgroupfs})}
			},
			want: []string{"error cgroup-driver: /sys/fs/cgroup/kubepods.slice", "warning runtime: but the kubelet (process"},
		},
		{
			name: "kubelet configured for the other driver", script: "edit " + kubeletConfig + " 's/^cgroupDriver:.*/cgroupDriver: cgroupfs/'",
			want: []string{"warning cgroup-driver-kubelet: cgroupDriver is cgroupfs"},
		},
		{
			name: "no NRI", script: "hide /run/nri",
			want: []string{"info nri: /run/nri/nri.sock does not exist"},
		},
		{
			name: "no systemd", script: "hide /run/systemd\nhide /run/dbus",
			want: []string{"error systemd: /run/systemd/private"},
		},
		{
			name: "systemd too old", setup: func(t *testing.T) addition {
				socket := relay(t, "/run/systemd/private", olderSystemd)
				return addition{script: "mount --bind " + socket + " /run/systemd/private"}
			},
			want: []string{"error systemd: systemd 243"},
		},
		{
			name: "systemd hangs", script: "hide /run/dbus\n", setup: func(t *testing.T) addition {
				return addition{script: "mount --bind " + relay(t, "/run/systemd/private", afterLogin(nothing)) + " /run/systemd/private"}
			},
			want: []string{"error systemd: ask systemd for its version: context deadline exceeded"},
		},
	}
}

func kubeletCases() []broken {
	return []broken{
		{
			name: "static policy in the configuration", script: "edit " + kubeletConfig + " 's/^cpuManagerPolicy:.*/cpuManagerPolicy: static/'",
			want: []string{"refuse kubelet-policy: " + kubeletConfig},
		},
		{
			name: "static policy in the state", script: "edit " + kubeletState + ` 's/"none"/"static"/'`,
			want: []string{"refuse kubelet-policy: " + kubeletState},
		},
		{
			name: "corrupt state", script: "replace " + kubeletState + ` '{"policyName":"st'`,
			want: []string{"warning kubelet-state: " + kubeletState},
		},
		{
			name: "corrupt configuration", script: "replace " + kubeletConfig + " 'cpuManagerPolicy: ['",
			want: []string{"warning kubelet-config: " + kubeletConfig},
		},
		{
			name: "other CPUs reserved", script: "edit " + kubeletConfig + " 's/^reservedSystemCPUs:.*/reservedSystemCPUs: 0-2/'",
			want: []string{`warning kubelet-reserved: reservedSystemCPUs is 0-2`},
		},
		{
			name: "no CPUs reserved", script: "edit " + kubeletConfig + " /^reservedSystemCPUs:/d",
			want: []string{`warning kubelet-reserved: set reservedSystemCPUs: "0-1"`},
		},
		{
			name: "system partition without its feature gate", script: "edit " + kubeletConfig + " '$a systemPartition: {namespaces: [kube-system]}'",
			want: []string{"info system-partition: the feature gate NodeSystemPartition is off"},
		},
	}
}

// workload is the table that OpenShift's node tuning writes.
const workload = `[crio.runtime.workloads.management]
activation_annotation = "target.workload.openshift.io/management"
annotation_prefix = "resources.workload.openshift.io"
resources = { "cpushares" = 0, "cpuset" = "0-1" }
`

func crioCases() []broken {
	crio := func(file string) func(t *testing.T) addition {
		return func(t *testing.T) addition {
			return addition{
				script: "mkdir -p /run/etc-crio/crio.conf.d /etc/crio\nmount --bind /run/etc-crio /etc/crio\ncat >/etc/crio/crio.conf.d/99-test.conf <<'END'\n" + file + "END",
				config: fakeRuntime(t, testnode.RuntimeConfig{Flavor: testnode.CRIO}),
			}
		}
	}
	return []broken{
		{
			name: "CRI-O with a workloads table", setup: crio(workload),
			want: []string{"refuse crio-workloads: /etc/crio/crio.conf.d/99-test.conf: crio.runtime.workloads.management"},
		},
		{
			name: "CRI-O with infra_ctr_cpuset", setup: crio("[crio.runtime]\ninfra_ctr_cpuset = \"0-1\"\n"),
			want: []string{`warning crio-infra-cpuset: crio.runtime.infra_ctr_cpuset is "0-1"`},
		},
		{
			name:  "CRI-O with a handler that writes CPUs",
			setup: crio("[crio.runtime.runtimes.high-performance]\nruntime_path = \"/usr/bin/runc\"\nallowed_annotations = [\"cpu-load-balancing.crio.io\"]\n"),
			want:  []string{"info crio-high-performance: allowed_annotations has cpu-load-balancing.crio.io"},
		},
		{
			name: "CRI-O with a corrupt file", setup: crio("[crio\n"),
			want: []string{"warning crio-config: /etc/crio/crio.conf.d/99-test.conf"},
		},
	}
}

// otherCases lists the other managers of CPUs, without the kubelet and CRI-O.
func otherCases() []broken {
	return []broken{
		{
			name: "a plugin of the runtime", setup: func(t *testing.T) addition {
				c := exec.CommandContext(t.Context(), "/bin/sleep", "1h")
				c.Args[0] = "/usr/local/bin/nri-resource-policy-balloons"
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Wait() }) // killed with the context
				return addition{}
			},
			want: []string{"refuse nri-plugins: nri-resource-policy-balloons"},
		},
		{
			name: "a pod that asks another manager", setup: func(t *testing.T) addition {
				r := testnode.StartRuntime(t, testnode.RuntimeConfig{Flavor: testnode.CRIO})
				if _, err := r.RunPod(testnode.PodSpec{Name: "a", Namespace: "default", UID: "a", Annotations: map[string]string{"nokia.k8s.io/cpus": "[]"}}); err != nil {
					t.Fatal(err)
				}
				return addition{config: "containerRuntimeEndpoint: " + r.Endpoint() + "\n"}
			},
			want: []string{"warning other-annotations: requests CPUs from CPU-Pooler"},
		},
		{
			name: "tuned keeps threads off CPUs", script: `mkdir -p /etc/tuned
hide /etc/tuned
mkdir /etc/tuned/radio
echo radio >/etc/tuned/active_profile
printf '[scheduler]\nisolated_cores=4-7\n' >/etc/tuned/radio/tuned.conf`,
			want: []string{"info tuned: tuned does not run"},
		},
	}
}

func kernelCases() []broken {
	partitions := strings.Replace(goodConfig, "cpus: 4-7", "cpus: 4-7\n  isolation: partition", 1)
	return []broken{
		{
			name: "partitions on a kernel without", config: partitions, script: "replace /proc/sys/kernel/osrelease 6.8.0-31-generic",
			want: []string{"error isolation: 6.8.0-31-generic has no partitions"},
		},
		{
			name: "partitions on a kernel with traps", config: partitions,
			want: []string{"warning isolation: 6.12."},
		},
		{
			name: "parking on a kernel without partitions by default", config: strings.Replace(goodConfig, "cpus: 4-7", "cpus: 4-7\n  isolation: auto\n  park: true", 1),
			want: []string{"warning isolation: no CPU is parked"},
		},
		{
			name: "kernel that forgets affinities", script: "replace /proc/sys/kernel/osrelease 6.1.0-49-amd64",
			want: []string{"info kernel-affinity: 6.1.0-49-amd64"},
		},
		{
			name: "kernel that clears cpusets", script: "replace /proc/sys/kernel/osrelease 7.0.13-amd64",
			want: []string{"info kernel-reload: daemon-reload"},
		},
		{
			name: "kernel without remote partitions", script: `hide /sys/fs/cgroup/kubepods.slice
echo cpuset cpu memory pids >/sys/fs/cgroup/kubepods.slice/cgroup.controllers
echo 0-7 >/sys/fs/cgroup/kubepods.slice/cpuset.cpus`,
			want: []string{"info kernel-partitions: cpuset.cpus.exclusive"},
		},
		{
			name: "kernel without PSI", script: "hide /proc/pressure",
			want: []string{"info kernel-psi: psi=1"},
		},
	}
}

func poolCases() []broken {
	return []broken{
		{
			name: "CPU without topology", script: "hide /sys/devices/system/cpu/cpu5/topology",
			want: []string{"refuse topology: cpu5"},
		},
		{
			name: "overlapping pools", config: strings.Replace(goodConfig, "cpus: 2-3", "cpus: 2-4", 1),
			want: []string{"error pools: CPU 4 is in shared.cpus too"},
		},
		{
			name: "a floor that is never reached", config: goodConfig + "depletion: {action: taint, floor: 3, dryRun: false}\n",
			want: []string{"warning depletion-floor: is 3"},
		},
		{
			name: "CPUs that do not exist", config: strings.Replace(goodConfig, "cpus: 4-7", "cpus: 4-8", 1),
			want: []string{"error pools: no CPU 8"},
		},
		{
			name: "CPU offline", setup: func(t *testing.T) addition {
				write(t, "/sys/devices/system/cpu/cpu7/online", "0")
				t.Cleanup(func() { write(t, "/sys/devices/system/cpu/cpu7/online", "1") })
				return addition{}
			},
			want: []string{"warning pools-offline: CPUs 7"},
		},
		{
			name: "partition of a slice", setup: func(t *testing.T) addition {
				// In another slice: the cpuset.cpus of kubepods.slice contains CPU 7, and the kernel refuses a partition next to it.
				const outer, slice = "/sys/fs/cgroup/check.slice", "/sys/fs/cgroup/check.slice/check-unit.slice"
				if err := os.MkdirAll(slice, 0o755); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					write(t, slice+"/cpuset.cpus.partition", "member")
					if err := errors.Join(os.Remove(slice), os.Remove(outer)); err != nil {
						t.Error(err)
					}
				})
				write(t, outer+"/cgroup.subtree_control", "+cpuset")
				write(t, outer+"/cpuset.cpus.exclusive", "7")
				for file, value := range map[string]string{"cpuset.cpus": "7", "cpuset.cpus.exclusive": "7"} {
					write(t, slice+"/"+file, value)
				}
				write(t, slice+"/cpuset.cpus.partition", "root")
				return addition{}
			},
			want: []string{"warning usable-cpus: the cpuset partition of check.slice/check-unit.slice has CPUs 7"},
		},
		{
			name: "core in two pools", script: joinThreads("1-2", 1, 2),
			want: []string{"warning pools-split-core: CPUs 1 of workload type management and 2 of the shared pool"},
		},
		{
			name: "core in two NUMA nodes", script: joinThreads("3-4", 3, 4),
			want: []string{
				"warning pools-split-core: CPUs 3 of the shared pool and 4 of the guaranteed pool",
				"warning topology: CPUs 4 are threads of cores in another cache, die, package or NUMA node",
			},
		},
		{
			name: "one management CPU", config: strings.Replace(goodConfig, "cpus: 0-1", "cpus: 0", 1),
			script: "edit " + kubeletConfig + ` 's/^reservedSystemCPUs:.*/reservedSystemCPUs: "0"/'`,
			want:   []string{"warning pools-management: only CPUs 0 of the management pools are online, 1 in total"},
		},
		{
			name: "CPU 0 guaranteed", config: strings.NewReplacer("cpus: 0-1", "cpus: 6-7", "cpus: 4-7", "cpus: 0-1,4-5").Replace(goodConfig),
			script: "edit " + kubeletConfig + " 's/^reservedSystemCPUs:.*/reservedSystemCPUs: 6-7/'",
			want:   []string{"warning pools-cpu0: 0-1,4-5 contains CPU 0"},
		},
		{
			name: "isolated CPUs in the shared pool", script: "replace /sys/devices/system/cpu/isolated 3-7",
			want: []string{"warning pools-isolated: CPUs 3 of the shared pool"},
		},
	}
}

func directoryCases() []broken {
	const state, run = "/var/lib/cpupoold-check", "/run/cpupoold-check"
	return []broken{
		{
			name: "journal on a read-only file system", config: goodConfig + "stateDir: " + state + "\n",
			script: "mkdir -p " + state + "\nmount -t tmpfs -o ro none " + state,
			want:   []string{"error directories: stateDir: " + state},
		},
		{
			name: "lock on a read-only file system", config: goodConfig + "runDir: " + run + "\n",
			script: "mkdir -p " + run + "\nmount -t tmpfs -o ro none " + run,
			want:   []string{"error directories: runDir: " + run},
		},
		{
			name: "another daemon", config: goodConfig + "runDir: " + run + "-held\n", setup: func(t *testing.T) addition {
				unlock, err := service.Lock(run + "-held")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := unlock(); err != nil {
						t.Error(err)
					}
				})
				return addition{}
			},
			want: []string{"info daemon: a daemon runs as process "},
		},
	}
}

func write(t *testing.T, file, value string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}
