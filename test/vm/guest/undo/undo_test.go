//go:build guest

package undo_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

var (
	rounds  = flag.Int("rounds", 3, "how often containers start and stop")
	withNRI = flag.Bool("nri", true, "whether the runtime has NRI; false needs CRI-O")
)

// config has everything that writes: pools, host slices, a unit, partitions where the kernel has them, and interrupts.
const config = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: 0-1, namespaces: [kube-system]}
shared: {cpus: 2-3}
guaranteed: {cpus: 4-7, isolation: partition}
hostSlices: {enabled: true, weight: 200}
units: {du.service: {cpus: 1}}
interrupts: {away: exclusive}
resyncPeriod: 10s
podResourcesSocket: none
`

// reconfigured has other pools, and takes exclusive CPUs out of the shared one.
func reconfigured() string {
	return strings.NewReplacer("cpus: 0-1", "cpus: 0", "{cpus: 2-3}", "{cpus: 1-7}", "cpus: 4-7, isolation: partition", "from: shared, floor: 2", "weight: 200", "weight: 300").Replace(config)
}

type node struct{ *guestnode.Node }

// TestUndo checks that `restore` restores all values of the node after pods have started and stopped, after reconfigurations and kills, and
// without the journal.
func TestUndo(t *testing.T) {
	n := &node{guestnode.New(t)}
	if !*withNRI {
		n.switchNRIOff()
	}
	n.Run("systemd-run", "--unit=du", "sleep", "infinity")
	t.Cleanup(func() { _, _ = n.Try("systemctl", "stop", "du") })
	n.Apply(stay()...)
	for _, p := range stay() {
		n.Eventually(p.Name, func() error { _, err := n.Find(p.Name, "app"); return err })
	}
	n.kubeletSettles()
	before := n.dump()

	containers := 0
	var late []manifest.Pod
	for round := range *rounds {
		n.StartDaemon(config)
		n.checkNRI()
		n.Settled()
		pods := guests()
		n.Apply(append(stay(), pods...)...)
		for _, p := range pods {
			n.Eventually(p.Name, func() error { _, err := n.Find(p.Name, p.Containers[0].Name); return err })
			containers += len(p.Containers)
		}
		if round > 0 { // the first kill meets a daemon that still places containers
			n.Settled()
		}
		n.Run("systemctl", "kill", "--signal=KILL", "cpupoold") // systemd starts it again
		n.Write(guestnode.ConfigFile, reconfigured())
		n.Eventually("the daemon is back", func() error { _, err := n.Try("systemctl", "reload-or-restart", "cpupoold"); return err })
		n.Settled()
		if late = pods; round+1 < *rounds {
			n.withdraw(pods)
		}
		n.StopDaemon()
		t.Logf("round %d: %d containers so far", round+1, containers)
	}
	n.restores("with its journal", before, late)

	n.StartDaemon(config)
	n.Settled()
	n.StopDaemon()
	if err := os.Remove("/var/lib/cpupoold/journal.json"); err != nil {
		t.Fatal(err)
	}
	n.restores("without a journal", before, nil)
}

// switchNRIOff configures CRI-O without NRI, which is on by default.
func (n *node) switchNRIOff() {
	n.Helper()
	if n.Runtime.Name != "cri-o" {
		n.Fatalf("-nri=false with %s; want CRI-O", n.Runtime.Name)
	}
	n.Write("/etc/crio/crio.conf.d/30-nri-off.conf", "[crio.nri]\nenable_nri = false\n")
	n.Run("systemctl", "restart", n.Runtime.Unit)
	n.Eventually("the runtime lists pods", func() error {
		_, _, err := n.Client.List(n.Context())
		return err
	})
}

// checkNRI checks that the daemon has the connection to the runtime that this test is about.
func (n *node) checkNRI() {
	n.Helper()
	want := "NRI is connected"
	if !*withNRI {
		want = "the runtime does not offer NRI"
	}
	n.Eventually("the log reports: "+want, func() error {
		id := strings.TrimSpace(n.Run("systemctl", "show", "-P", "InvocationID", "cpupoold"))
		if !strings.Contains(n.Run("journalctl", "--no-pager", "-o", "cat", "_SYSTEMD_INVOCATION_ID="+id), want) {
			return errors.New("it does not")
		}
		return nil
	})
}

// restores compares the output of a dry run with the changes, and the node with its
// earlier values. The late pods started while a daemon ran, so they have no earlier values: restores
// checks that they can run on all CPUs, and withdraws them.
func (n *node) restores(how string, before map[string]string, late []manifest.Pod) {
	n.Helper()
	changed := n.dump()
	said := n.restore("--dry-run")
	if diff := differences(changed, n.dump()); len(diff) > 0 {
		n.Errorf("%s: changes by a dry run; want none:\n%s", how, strings.Join(diff, "\n"))
	}
	if len(said.Changes) == 0 {
		n.Errorf("%s: no changes; want some", how)
	}
	done := n.restore()
	if a, b := list(said.Changes), list(done.Changes); !slices.Equal(a, b) {
		n.Errorf("%s: changes of the dry run:\n%s\ndiffer from the changes:\n%s", how, strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for _, d := range done.Differs {
		if !d.Harmless {
			n.Errorf("%s: %s %s is %q; want %q: %s", how, d.Path, d.File, d.Now, d.Value, d.Reason)
		}
	}
	for key, value := range n.dumpOf("kubepods.slice") {
		if strings.HasSuffix(key, " cpuset.cpus.effective") && value != "0-7" {
			n.Errorf("%s: %s is %q; want 0-7", how, key, value)
		}
	}
	n.withdraw(late)
	n.kubeletSettles()
	after := n.dump()
	if diff := differences(before, after); len(diff) > 0 {
		n.Errorf("%s: values after restore differ:\n%s", how, strings.Join(diff, "\n"))
	}
	n.Logf("%s: %d values restored (note %q), %d of %d values have another form", how, len(done.Changes), done.Note, reworded(before, after), len(before))
}

func (n *node) restore(args ...string) (r restore.Report) {
	n.Helper()
	out, err := n.Try("cpupoold", append([]string{"restore", "-o", "json"}, args...)...)
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil {
		n.Fatalf("cpupoold restore %v: %v, %v: %s", args, err, jsonErr, out)
	}
	return r
}

// stay are pods of each kind that outlive everything.
func stay() []manifest.Pod {
	app := func(name, cpu string, limited bool) manifest.Pod {
		return manifest.Pod{Name: name, Namespace: "default", Containers: []manifest.Container{{Name: "app", CPU: cpu, Memory: "16Mi", Limited: limited}}}
	}
	platform := app("platform", "100m", false)
	platform.Namespace, platform.Annotations = "kube-system", manifest.Management(map[string]string{"app": "256"})
	return []manifest.Pod{app("owner", "1", true), app("web", "200m", false), app("fraction", "500m", true), platform}
}

// guests returns the pods that start and stop.
func guests() (pods []manifest.Pod) {
	for _, p := range stay() {
		p.Name += "-guest"
		p.Containers = append(p.Containers, manifest.Container{Name: "side", CPU: "100m", Memory: "16Mi", Limited: p.Containers[0].Limited})
		pods = append(pods, p)
	}
	return pods
}

func (n *node) withdraw(pods []manifest.Pod) {
	n.Helper()
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	n.Withdraw(names...)
}

// kubeletSettles waits until the kubelet has written the weights of its slices, as it does once a minute.
func (n *node) kubeletSettles() {
	n.Helper()
	var last string
	n.Every(20*time.Second, "weights that stay", func() error {
		now := fmt.Sprint(n.dumpOf("kubepods.slice"))
		if was := last; was != now {
			last = now
			return fmt.Errorf("was %s, is %s", was, now)
		}
		return nil
	})
}

// dump returns all values that the daemon could have changed, and more, by their names.
func (n *node) dump() map[string]string {
	n.Helper()
	all := n.dumpOf("")
	for text := range strings.SplitSeq(n.Run("systemctl", "show", "*", "-p", "Id,AllowedCPUs,AllowedMemoryNodes,CPUWeight,CPUQuotaPerSecUSec"), "\n\n") {
		lines := strings.Split(text, "\n")
		slices.Sort(lines)
		id := ""
		for _, line := range lines {
			name, value, _ := strings.Cut(line, "=")
			if name == "Id" {
				id = value
			}
		}
		for _, line := range lines {
			if name, value, _ := strings.Cut(line, "="); name != "Id" && name != "" {
				all["unit "+id+" "+name] = value
			}
		}
	}
	for _, pattern := range []string{"/proc/irq/*/smp_affinity_list", "/proc/irq/default_smp_affinity", "/sys/devices/virtual/workqueue/cpumask", "/sys/class/net/*/queues/rx-*/rps_cpus"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			n.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				all[file] = strings.TrimSpace(string(text))
			}
		}
	}
	return all
}

func (n *node) dumpOf(root cgroup.Path) map[string]string {
	n.Helper()
	all := make(map[string]string)
	err := walk.Cgroups(n.FS, root, func(p cgroup.Path) error {
		for _, file := range []string{"cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.exclusive", "cpuset.cpus.partition", "cpuset.mems", "cpuset.mems.effective", "cpu.weight", "cpu.max"} {
			if text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", string(p), file)); err == nil {
				all[string(p)+" "+file] = strings.TrimSpace(string(text))
			}
		}
		return nil
	})
	if err != nil {
		n.Fatal(err)
	}
	return all
}

// same reports whether the kernel or systemd treat two values alike. Before kernel 7.0 a cpuset cannot be cleared, and runtimes cannot
// clear their recorded values. So all CPUs, or all NUMA nodes, equal an empty value.
func same(key, was, is string) bool {
	switch {
	case was == is:
		return true
	case strings.HasSuffix(key, " cpuset.cpus"), strings.HasSuffix(key, " AllowedCPUs"):
		return was == "" && is == "0-7"
	case strings.HasSuffix(key, " cpuset.mems"), strings.HasSuffix(key, " AllowedMemoryNodes"):
		return was == "" && is == "0-1"
	}
	return false
}

// differences compares the values in both dumps. Other values belong to units and cgroups that started or stopped
// during the test.
func differences(before, after map[string]string) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if is, there := after[key]; there && !same(key, before[key], is) {
			lines = append(lines, fmt.Sprintf("%s: was %q, is %q", key, before[key], is))
		}
	}
	return lines
}

// reworded returns the number of values with another form of the same meaning.
func reworded(before, after map[string]string) (n int) {
	for key, was := range before {
		if is, there := after[key]; there && is != was {
			n++
		}
	}
	return n
}

func list(changes []restore.Change) (lines []string) {
	for _, c := range changes {
		lines = append(lines, fmt.Sprintf("%s %s %s: %q to %q", c.Path, c.Unit, c.File, c.From, c.To))
	}
	slices.Sort(lines)
	return lines
}
