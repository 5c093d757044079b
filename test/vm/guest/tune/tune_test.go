//go:build guest

package tune_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7}
kernelThreads: exclusive
`
	configFile = "/etc/cpupoold/config.yaml"
	manifest   = "/etc/kubernetes/manifests/quiet.yaml"
	pod        = `apiVersion: v1
kind: Pod
metadata:
  name: quiet
  annotations: {irq-load-balancing.crio.io: disable}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: localhost/cpupoold/work:1
    imagePullPolicy: Never
    resources: {limits: {cpu: 2, memory: 32Mi}}
`
)

// TestInterrupts goes through the life of them on one node.
func TestInterrupts(t *testing.T) {
	n := &node{t}
	n.write(configFile, config)
	t.Cleanup(func() {
		for _, unit := range []string{"cpupoold", "irqbalance-test"} {
			_, _ = n.try("systemctl", "stop", unit) // some of them were never started
		}
		_ = os.Remove(manifest)
	})
	before, movable := n.dump(), n.movable()
	t.Logf("%d interrupts, %d of them can be moved", len(n.irqs()), len(movable))
	n.run("systemctl", "start", "cpupoold")
	if d := cmp.Diff(before, n.dump()); d != "" {
		t.Errorf("changes by a daemon without owners (-before +after):\n%s", d)
	}

	n.write(manifest, pod)
	quiet := n.becomesQuiet(movable)
	n.newInterrupt(quiet)
	n.foreignWriter(movable, quiet)

	n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.run("systemctl", "stop", "cpupoold")
	if err := n.isQuiet(movable, quiet); err != nil {
		t.Errorf("while the daemon is dead: %v", err)
	}
	n.run("systemctl", "start", "cpupoold")
	if err := n.isQuiet(movable, quiet); err != nil {
		t.Errorf("after its restart: %v", err)
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	n.eventually("given back", func() error { return n.same(before) })

	n.write(manifest, pod)
	n.becomesQuiet(movable)
	n.run("systemctl", "kill", "--signal=KILL", "cpupoold")
	n.run("systemctl", "stop", "cpupoold")
	t.Logf("restore: %s", n.run("cpupoold", "restore"))
	if err := n.same(before); err != nil {
		t.Errorf("after kill -9 and restore: %v", err)
	}
	n.run("systemctl", "start", "cpupoold")
	n.becomesQuiet(movable)
	n.balancer()
}

// same compares the machine's values with the earlier ones. Threads may start and end.
func (n *node) same(before map[string]string) error {
	n.Helper()
	after := n.dump()
	for _, one := range []map[string]string{before, after} {
		for name := range one {
			if _, inBefore := before[name]; !inBefore && strings.HasPrefix(name, "kthread ") {
				delete(one, name)
			} else if _, inAfter := after[name]; !inAfter && strings.HasPrefix(name, "kthread ") {
				delete(one, name)
			}
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		return fmt.Errorf("(-before +after):\n%s", d)
	}
	return nil
}

// becomesQuiet waits until the interrupts are off the container's CPUs, and returns these CPUs
// from the kernel.
func (n *node) becomesQuiet(movable []string) (quiet cpuset.Set) {
	n.Helper()
	n.eventually("quiet", func() error {
		mask, err := cpuset.ParseMask(n.read(defaultAffinity), 8)
		if err != nil {
			return err
		}
		quiet = cpuset.Range(0, 7).Difference(mask)
		if quiet.Len() != 2 || !quiet.IsSubsetOf(cpuset.Range(4, 7)) {
			return fmt.Errorf("CPUs without new interrupts: %q", quiet)
		}
		if err := n.hasContainer(quiet); err != nil {
			return err
		}
		return n.isQuiet(movable, quiet)
	})
	return quiet
}

// hasContainer checks that a container's cgroup runs on exactly these CPUs.
func (n *node) hasContainer(cpus cpuset.Set) error {
	files, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/kubepods-pod*.slice/*.scope/cpuset.cpus.effective")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == cpus.String() {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("no container runs on CPUs %s", cpus))
}

func (n *node) isQuiet(movable []string, quiet cpuset.Set) error {
	for irq, mask := range n.irqs() {
		if slices.Contains(movable, irq) && mask.Overlaps(quiet) {
			return fmt.Errorf("IRQ %s may go to %s; want it off %s", irq, mask, quiet)
		}
	}
	for name, list := range n.dump() {
		if !strings.HasPrefix(name, "kthread ") {
			continue
		}
		if mask, err := cpuset.Parse(list); err != nil || mask.Len() > 1 && mask.Overlaps(quiet) {
			return fmt.Errorf("%s may run on %s; want it off %s", name, list, quiet)
		}
	}
	return nil
}

// newInterrupt takes a device from its driver and gives it back: its interrupts are new ones.
func (n *node) newInterrupt(quiet cpuset.Set) {
	n.Helper()
	for _, driver := range []string{"virtio_balloon", "virtio_rng", "virtio_console"} {
		devices, err := filepath.Glob("/sys/bus/virtio/drivers/" + driver + "/virtio*")
		if err != nil || len(devices) == 0 {
			continue
		}
		dir, device := filepath.Dir(devices[0]), filepath.Base(devices[0])
		n.write(dir+"/unbind", device)
		n.write(dir+"/bind", device)
		n.eventually("new interrupts of "+driver, func() error {
			for irq, mask := range n.irqs() {
				entries, err := filepath.Glob("/proc/irq/" + irq + "/" + device + "*")
				if err == nil && len(entries) > 0 && mask.Overlaps(quiet) && put(affinityOf(irq), mask.String()) == nil {
					return fmt.Errorf("IRQ %s of %s may go to %s", irq, device, mask)
				}
			}
			return nil
		})
		return
	}
	n.Log("no device of this machine can be taken from its driver")
}

// foreignWriter writes one interrupt whenever it is changed, until the daemon gives up for a while.
func (n *node) foreignWriter(movable []string, quiet cpuset.Set) {
	n.Helper()
	irq := slices.Max(movable)
	ours := n.read(affinityOf(irq))
	n.eventually("contested", func() error {
		if now := n.read(affinityOf(irq)); now != quiet.String() {
			if err := put(affinityOf(irq), quiet.String()); err != nil {
				return err
			}
		}
		return n.metrics(`cpupoold_problems{code="HostSettingsContested"} 1`, `cpupoold_host_settings_stuck{kind="irq",reason="contested"} 1`)
	})
	if err := put(affinityOf(irq), ours); err != nil {
		n.Error(err)
	}
	n.eventually("end of the write conflict", func() error {
		if n.metrics(`cpupoold_problems{code="HostSettingsContested"} 1`) == nil {
			return errors.New("there still is one")
		}
		return nil
	})
}

// balancer checks the real irqbalance: the daemon sends it the CPUs at once, and again
// after its restart.
func (n *node) balancer() {
	n.Helper()
	const program = "/opt/irqbalance/irqbalance"
	if _, err := os.Stat(program); err != nil {
		n.Log("no irqbalance on this machine")
		return
	}
	start := func() {
		n.run("systemd-run", "--unit=irqbalance-test", "-p", "RuntimeDirectory=irqbalance", "-E", "LD_LIBRARY_PATH="+filepath.Dir(program), program, "--foreground", "--interval=5")
	}
	mask, err := cpuset.ParseMask(n.read(defaultAffinity), 8)
	if err != nil {
		n.Fatal(err)
	}
	quiet := cpuset.Range(0, 7).Difference(mask)
	bans := func() error {
		proc, err := tune.OpenDir("/proc")
		if err != nil {
			return err
		}
		sys, err := tune.OpenDir("/sys")
		if err != nil {
			return err
		}
		m := tune.Machine{Possible: cpuset.Range(0, 7), Online: cpuset.Range(0, 7)}
		seen, err := tune.NewBalancer(proc, sys, os.DirFS("/etc"), m).Read(n.Context())
		if err == nil && (len(seen) != 1 || seen[0].Value != quiet.String()) {
			err = fmt.Errorf("excluded CPUs of irqbalance = %v; want %s", seen, quiet)
		}
		return err
	}
	start()
	n.eventually("irqbalance excludes the CPUs", bans)
	n.run("systemctl", "stop", "irqbalance-test")
	start()
	n.eventually("irqbalance excludes the CPUs after its restart", bans)
	n.eventually("the metric", func() error { return n.metrics(`cpupoold_host_settings_moved{kind="irqbalance"} 1`) })
	began := time.Now()
	n.run("systemctl", "stop", "cpupoold")
	n.Logf("restore: %s", n.run("cpupoold", "restore"))
	quiet = cpuset.Set{}
	n.eventually("irqbalance gets an empty list", bans)
	n.Logf("irqbalance followed %v after the restore", time.Since(began).Round(time.Second))
}
