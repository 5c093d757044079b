//go:build guest

package alerts_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/prometheus"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var factor = flag.Int("factor", 0, "divisor of the rules' durations, for the log")

// config makes passes as often as a node with shortened rules needs them. It confines host services away from owners. NRI is off,
// so that an external write drifts on any runtime.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-3, namespaces: [kube-system]}
shared: {cpus: 4-5}
guaranteed: {cpus: 6-7, onRefusal: shared}
hostSlices: {enabled: true}
kernelThreads: exclusive
resyncPeriod: 2s
nriSocket: none
podResourcesSocket: none
audit: {interval: 10s}
`

// inCluster adds the keys of a node that can count as depleted. Its API server never answers, and the test does
// not need it.
const inCluster = config + `depletion: {floor: 2, clearAfter: 1s}
node: {name: node, kubeconfig: /etc/cpupoold/no-such-kubeconfig}
`

// partitioned has owners' CPUs taken from all others by the kernel.
var partitioned = strings.Replace(config, "onRefusal: shared", "onRefusal: shared, isolation: partition", 1)

// uncaused returns the alerts with symptoms that need a cluster: of the webhook, which test/e2e causes, and of the driver for
// ResourceClaims, which only promtool tests.
func uncaused() []string {
	return []string{
		"CPUPoolWebhookFails", "CPUPoolWebhookDown", "CPUPoolEvictionHalted", "CPUPoolResourceMissing",
		"CPUPoolClaimDriverDown", "CPUPoolClaimsUnavailable", "CPUPoolClaimsFail", "CPUPoolClaimsOrphaned", "CPUPoolClaimsUnreserved",
	}
}

// TestAlerts goes through all alerts on one node: each fires by its symptom, and ends with it.
func TestAlerts(t *testing.T) {
	n := newNode(t)
	n.Logf("all durations of the rules are divided by %d", *factor)
	n.StartDaemon(config)
	n.startPrometheus()
	n.furnish()
	n.quiet("on a node in order")
	n.daemonIsDown()
	n.targetsAreLost()
	n.configurationIsBad()
	n.runtimeIsAway()
	n.writesAreRefused()
	n.externalWritesContinue()
	n.ownerIsRefused()
	n.ownerIsDisturbed()
	n.tasksWait()
	n.settingsAreRefused()
	n.startsAreSeenLate()
	n.quiet("after all that")
	n.poolIsDepleted()
	n.cpuIsLost()

	rules, err := os.ReadFile(prometheusDir + "/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range prometheus.Names(string(rules)) {
		if is, want := n.caused[name], !slices.Contains(uncaused(), name); is != want {
			t.Errorf("%s: caused = %t; want %t", name, is, want)
		}
	}
}

// daemonIsDown for longer than an upgrade takes.
func (n *node) daemonIsDown() {
	n.Helper()
	n.StopDaemon()
	n.fires("CPUPoolDaemonDown")
	n.StartDaemon(config)
	n.ends("CPUPoolDaemonDown")
}

// targetsAreLost removes the targets of Prometheus.
func (n *node) targetsAreLost() {
	n.Helper()
	n.Write(targetsFile, noTarget)
	n.fires("CPUPoolDaemonAbsent")
	n.Write(targetsFile, daemonTarget)
	n.ends("CPUPoolDaemonAbsent")
}

func (n *node) configurationIsBad() {
	n.Helper()
	n.Write(guestnode.ConfigFile, config+"nonsense: true\n")
	n.fires("CPUPoolConfigStale")
	n.Write(guestnode.ConfigFile, config)
	n.ends("CPUPoolConfigStale")
}

func (n *node) runtimeIsAway() {
	n.Helper()
	n.Run("systemctl", "stop", n.Runtime.Unit)
	n.fires("CPUPoolSourceLost")
	n.Run("systemctl", "start", n.Runtime.Unit, "kubelet")
	n.ends("CPUPoolSourceLost")
}

// writesAreRefused makes the file system read-only for the daemon after a write has moved a container.
func (n *node) writesAreRefused() {
	n.Helper()
	n.inDaemon("mount -o remount,bind,ro /sys/fs/cgroup")
	if err := n.FS.Write(n.path(n.shared[0]), cgroup.FileCPUs, "4"); err != nil {
		n.Fatal(err)
	}
	symptoms := []string{"CPUPoolMisplaced", "CPUPoolDriftNotRepaired", "CPUPoolPassesFail"}
	n.fires(symptoms...)
	n.inDaemon("mount -o remount,bind,rw /sys/fs/cgroup")
	n.ends(symptoms...)
	n.placed()
}

// externalWritesContinue writes an owner's CPU into shared containers after each repair. The daemon then confines their pod, and pauses the repairs.
func (n *node) externalWritesContinue() {
	n.Helper()
	n.firesWhile(func() {
		for _, c := range n.shared {
			st, err := n.FS.Read(n.path(c))
			if err == nil && st.CPUs.Equal(c.CPUs) {
				err = n.FS.Write(n.path(c), cgroup.FileCPUs, n.owner.Effective.String())
			}
			if err != nil {
				n.Fatal(err)
			}
		}
	}, "CPUPoolDriftPersists")
	n.values("cpupoold_drift_total")
	n.values(`cpupoold_problems{code="Contested"}`)
	n.values("cpupoold_faulty_cgroups")
	n.ends("CPUPoolDriftPersists")
	n.placed()
}

func (n *node) ownerIsRefused() {
	n.Helper()
	n.Apply(pod("greedy", "2", "pause"))
	n.fires("CPUPoolOwnersRefused")
	n.Withdraw("greedy")
	n.ends("CPUPoolOwnersRefused")
}

// ownerIsDisturbed by a service that is in none of the slices that are confined.
func (n *node) ownerIsDisturbed() {
	n.Helper()
	n.values("cpupoold_audit_score_ratio")
	n.Run("systemd-run", "--unit=offender", "--slice=offenders.slice", "taskset", "-c", n.owner.Effective.String(), "sh", "-c", "while :; do :; done")
	n.Cleanup(func() { _, _ = n.Try("systemctl", "stop", "offender") })
	n.fires("CPUPoolOwnersDisturbed")
	n.values("cpupoold_audit_score_ratio")
	n.Run("systemctl", "stop", "offender")
	n.ends("CPUPoolOwnersDisturbed")
}

// tasksWait runs six threads on two CPUs.
func (n *node) tasksWait() {
	n.Helper()
	n.Apply(unlimited("busy", "spin", "6"))
	n.fires("CPUPoolSharedSaturated")
	n.Withdraw("busy")
	n.ends("CPUPoolSharedSaturated")
}

// settingsAreRefused to the daemon when an owner asks for CPUs without interrupts.
func (n *node) settingsAreRefused() {
	n.Helper()
	n.inDaemon("mount --bind /proc/irq /proc/irq && mount -o remount,bind,ro /proc/irq")
	calm := pod("calm", "1", "pause")
	calm.Annotations = map[string]string{"irq-load-balancing.crio.io": "disable"}
	n.Apply(calm)
	n.fires("CPUPoolHostSettingsStuck")
	n.values("cpupoold_host_settings_stuck > 0")
	n.inDaemon("umount -l /proc/irq")
	n.ends("CPUPoolHostSettingsStuck")
	n.Withdraw("calm")
}

// startsAreSeenLate checks the alert of late placements. Without inotify and NRI, the daemon finds a container when the runtime has started it. On
// an emulated machine that is more than a second after its creation, and more than 100 ms of its CPU time.
func (n *node) startsAreSeenLate() {
	n.Helper()
	const limit = "/proc/sys/fs/inotify/max_user_instances"
	before, err := os.ReadFile(limit)
	if err != nil {
		n.Fatal(err)
	}
	restore := sync.OnceFunc(func() { n.writeKernel(limit, strings.TrimSpace(string(before))) })
	n.Cleanup(restore)
	n.StopDaemon()
	n.writeKernel(limit, "0")
	n.StartDaemon(config)
	symptoms, names := []string{"CPUPoolPlacementLate", "CPUPoolPlacementExposed"}, []string{"unseen-1", "unseen-2", "unseen-3"}
	var since time.Time // they have been there
	n.firesWhile(func() {
		if since.IsZero() {
			for _, name := range names {
				n.Apply(unlimited(name, "pause"))
			}
			for _, name := range names {
				n.Eventually("start of "+name, func() error { _, err := n.Find(name, "app"); return err })
			}
			n.values("cpupoold_placement_seconds_sum")
			n.values("cpupoold_placement_exposure_cpu_seconds_sum")
			since = time.Now()
		}
		if time.Since(since) > 20*time.Second { // longer than the rules look back
			n.Withdraw(names...)
			since = time.Time{}
		}
	}, symptoms...)
	if !since.IsZero() {
		n.Withdraw(names...)
	}
	n.StopDaemon()
	restore()
	n.StartDaemon(config)
	n.ends(append(symptoms, "CPUPoolSourceLost")...)
}

// poolIsDepleted takes one of the two CPUs of the shared pool offline.
func (n *node) poolIsDepleted() {
	n.Helper()
	n.StopDaemon()
	n.StartDaemon(inCluster)
	n.Cleanup(func() { n.online("5", "1") })
	n.online("5", "0")
	n.fires("CPUPoolSharedDepleted")
	n.online("5", "1")
	n.ends("CPUPoolSharedDepleted")
}

// cpuIsLost checks the alert of a lost CPU. No test makes the kernel lose one: the defect that does it can damage the lists of Linux 6.12. So
// the CPU is in a partition that the daemon does not find, because it reads at most 64 cgroups below a unit.
func (n *node) cpuIsLost() {
	n.Helper()
	const service = "/sys/fs/cgroup/hidden.slice/hidden.service"
	deep := service + strings.Repeat("/d", 70)
	free := cpuset.Range(6, 7).Difference(n.owner.Effective)
	n.StopDaemon()
	end := sync.OnceFunc(func() {
		n.Run("sh", "-ec", fmt.Sprintf("echo member > %s/cpuset.cpus.partition; find /sys/fs/cgroup/hidden.slice -depth -type d -exec rmdir {} +", deep))
	})
	n.Run("sh", "-ec", fmt.Sprintf(`mkdir -p %[1]s
d=/sys/fs/cgroup
for part in $(echo %[1]s | sed "s|$d||; s|/| |g"); do
	echo +cpuset > $d/cgroup.subtree_control
	d=$d/$part
	echo %[2]s > $d/cpuset.cpus.exclusive
done`, deep, free))
	n.Cleanup(end)
	n.Run("sh", "-ec", fmt.Sprintf("echo isolated > %[1]s/cpuset.cpus.partition; grep -x isolated %[1]s/cpuset.cpus.partition", deep))
	n.StartDaemon(partitioned)
	n.fires("CPUPoolCPUsLeaked")
	n.values("cpupoold_leaked_cpus")
	n.StopDaemon()
	end()
	n.StartDaemon(partitioned)
	n.ends("CPUPoolCPUsLeaked")
}

// placed waits until the containers of the start are in their pools.
func (n *node) placed() {
	n.Helper()
	n.Eventually("all in their places", func() error {
		for _, c := range append(slices.Clone(n.shared), n.owner) {
			st, err := n.FS.Read(n.path(c))
			if err == nil && !st.Effective.Equal(c.Effective) {
				err = fmt.Errorf("%s runs on %s; want %s", c.Name, st.Effective, c.Effective)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func pod(name, cpu string, args ...string) manifest.Pod {
	return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{
		{Name: "app", CPU: cpu, Memory: "32Mi", Limited: true, Args: args}}}
}

// unlimited is a pod of the shared pool.
func unlimited(name string, args ...string) manifest.Pod {
	p := pod(name, "100m", args...)
	p.Containers[0].Limited = false
	return p
}

// furnish starts an owner and three containers of the shared pool.
func (n *node) furnish() {
	n.Helper()
	several := manifest.Pod{Name: "shared", Namespace: "default"}
	for _, name := range []string{"a", "b", "c"} {
		several.Containers = append(several.Containers, manifest.Container{Name: name, CPU: "100m", Memory: "32Mi"})
	}
	n.Apply(pod("owner", "1", "pause"), several)
	find := func(pod, name string, right func(cpuset.Set) bool) (c guestnode.Container) {
		n.Eventually(pod+"/"+name, func() (err error) {
			if c, err = n.Find(pod, name); err == nil && !right(c.Effective) {
				err = fmt.Errorf("it runs on %s", c.Effective)
			}
			return err
		})
		return c
	}
	n.owner = find("owner", "app", func(s cpuset.Set) bool { return s.Len() == 1 && s.IsSubsetOf(cpuset.Range(6, 7)) })
	for _, name := range []string{"a", "b", "c"} {
		n.shared = append(n.shared, find("shared", name, func(s cpuset.Set) bool { return s.Equal(cpuset.Range(4, 5)) }))
	}
}
