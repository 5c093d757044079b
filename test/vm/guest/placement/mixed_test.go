//go:build guest

package placement_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const journal = "/var/lib/cpupoold/journal.json"

// TestMixed checks a container that has shared CPUs in addition to its own. It starts on both, gets both lists in its environment, and
// follows the shared pool. It keeps its own CPUs after restarts of the daemon and systemd, and without a journal. Pause containers must be in
// their pool.
func TestMixed(t *testing.T) {
	n := newNode(t)
	n.carves = true
	n.StartDaemon(n.carved(2, "  mixed:\n    cpus: shared\n    namespaces: [default]\n") + "infraContainers: management\n")
	everything := n.Online.Difference(n.management)
	n.apply(pod("neighbour", manifest.Container{Name: "app"}))
	n.apply(with(pod("du", whole("app", 2), whole("side", 1)), "cpu-shared.workload.openshift.io/app", "enable"))
	own, shared := n.mixed("du")
	if want := everything.Len() - 3; own.Len() != 2 || shared.Len() != want {
		t.Errorf("du/app has %s for itself and shares %s; want 2 and %d CPUs", own, shared, want)
	}
	p, err := n.find("du", "app")
	if err != nil {
		t.Fatal(err)
	}
	born := n.variables(p)
	for name, want := range map[string]cpuset.Set{
		"CPUPOOL_CPUS": own, "OPENSHIFT_ISOLATED_CPUS": own, "CPUPOOL_MIXED_CPUS": shared, "OPENSHIFT_SHARED_CPUS": shared,
	} {
		// Its sidecar came after it: one of the CPUs that it shared then is that one's now.
		got, err := cpuset.Parse(born[name])
		if err != nil || !want.IsSubsetOf(got) || got.Difference(want).Len() > 1 {
			t.Errorf("%s=%s in du/app; it has %s now (%v)", name, born[name], want, err)
		}
	}
	side, err := n.find("du", "side")
	if err != nil {
		t.Fatal(err)
	}
	if value, there := n.variables(side)["OPENSHIFT_SHARED_CPUS"]; there {
		t.Errorf("OPENSHIFT_SHARED_CPUS = %s in a container without these CPUs; want no variable", value)
	}
	if st, err := n.FS.Read(p); err != nil || st.Quota != -1 {
		t.Errorf("du/app has quota %d (%v); want none", st.Quota, err)
	}
	n.pausesOn(n.management)

	// A program that is brought into it by exec may run on all of its CPUs.
	if got := n.execed("du", "app"); !got.Equal(own.Union(shared)) {
		t.Errorf("an exec'd process may run on %s; want what the container has, %s", got, own.Union(shared))
	}

	n.apply(pod("late", whole("app", 1)))
	still, less := n.mixed("du")
	if !still.Equal(own) || less.Len() != shared.Len()-1 {
		t.Errorf("after another owner has come du/app has %s for itself and shares %s; want %s, and one less of %s", still, less, own, shared)
	}
	for _, upset := range []struct {
		name string
		do   func()
	}{
		{"restart", func() { n.Run("systemctl", "restart", "cpupoold") }},
		{"daemon-reload", func() { n.Run("systemctl", "daemon-reload") }},
		{"lost journal", func() {
			n.StopDaemon()
			if err := os.Remove(journal); err != nil {
				t.Fatal(err)
			}
			n.Run("systemctl", "start", "cpupoold")
		}},
	} {
		upset.do()
		if o, s := n.mixed("du"); !o.Equal(own) || !s.Equal(less) {
			t.Errorf("%s: own and shared CPUs of du/app = %s, %s; want %s, %s", upset.name, o, s, own, less)
		}
	}
	n.Withdraw("late")
	n.Eventually("CPU of the one that has gone", func() error {
		if _, s := n.mixed("du"); !s.Equal(shared) {
			return fmt.Errorf("du/app shares %s, not %s", s, shared)
		}
		return nil
	})
}

// mixed waits until the daemon has settled, and returns the exclusive and the shared CPUs of a pod's container app. It compares the plan with the
// kernel for each thread, and for all other processes.
func (n *node) mixed(of string) (own, shared cpuset.Set) {
	n.Helper()
	n.Eventually("placement of "+of, func() error {
		plan := n.Settled().Plan
		var occupants []invariants.Occupant
		for _, pod := range plan.Pods {
			for _, c := range pod.Containers {
				if c.Kind == pools.Infra || c.State != pools.Running {
					continue
				}
				p, err := n.find(n.ShortName(pod.Name), c.Name)
				if err != nil {
					return err
				}
				on, err := n.threads(p)
				if err != nil {
					return err
				}
				if !on.Equal(c.Runs()) {
					return fmt.Errorf("%s/%s runs on %s; planned is %s, with %s shared", pod.Name, c.Name, on, c.CPUs, c.Mixed)
				}
				occupants = append(occupants, invariants.Occupant{Name: pod.Name + "/" + c.Name, CPUs: on.Difference(c.Mixed), Exclusive: c.Exclusive})
				if !c.Mixed.IsEmpty() {
					occupants = append(occupants, invariants.Occupant{Name: pod.Name + " shared CPUs", CPUs: c.Mixed})
				}
				if n.ShortName(pod.Name) == of && c.Name == "app" {
					own, shared = c.CPUs, c.Mixed
				}
			}
		}
		return errors.Join(invariants.CheckOccupants(occupants)...)
	})
	return own, shared
}

// threads returns the CPUs of all threads of a cgroup. They must equal the kernel's effective
// CPUs of the cgroup.
func (n *node) threads(p cgroup.Path) (cpuset.Set, error) {
	on, err := n.kernelSet(p)
	if err != nil {
		return on, err
	}
	tids, err := n.FS.ReadFile(p, "cgroup.threads")
	if err != nil {
		return on, err
	}
	for tid := range strings.FieldsSeq(string(tids)) {
		allowed, err := allowedOf(tid)
		if err != nil {
			return on, err
		}
		if !allowed.Equal(on) {
			return on, fmt.Errorf("thread %s of %s may run on %s, its cgroup on %s", tid, p, allowed, on)
		}
	}
	return on, nil
}

func allowedOf(task string) (cpuset.Set, error) {
	status, err := os.ReadFile("/proc/" + task + "/status")
	if err != nil {
		return cpuset.Set{}, err
	}
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	return cpuset.Parse(strings.TrimSpace(list))
}

// variables is the environment of the first process of a cgroup.
func (n *node) variables(p cgroup.Path) map[string]string {
	n.Helper()
	pids, err := n.FS.ReadFile(p, "cgroup.procs")
	if err != nil || len(strings.Fields(string(pids))) == 0 {
		n.Fatalf("processes of %s: %q, %v", p, pids, err)
	}
	environ, err := os.ReadFile("/proc/" + strings.Fields(string(pids))[0] + "/environ")
	if err != nil {
		n.Fatal(err)
	}
	all := make(map[string]string)
	for v := range strings.SplitSeq(string(environ), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return all
}

// pausesOn wants the processes of all pause containers on a set.
func (n *node) pausesOn(want cpuset.Set) {
	n.Helper()
	pauses := 0
	for _, pod := range n.Settled().Plan.Pods {
		for _, c := range pod.Containers {
			if c.Kind != pools.Infra {
				continue
			}
			found, err := filepath.Glob("/sys/fs/cgroup/kubepods.slice/*.slice/*" + c.ID + ".scope")
			deeper, _ := filepath.Glob("/sys/fs/cgroup/kubepods.slice/*.slice/*.slice/*" + c.ID + ".scope")
			for _, dir := range append(found, deeper...) {
				if on, err := n.kernelSet(cgroup.Path(strings.TrimPrefix(dir, "/sys/fs/cgroup/"))); err != nil || !on.Equal(want) {
					n.Errorf("pause container of %s runs on %s (%v); want %s", pod.Name, on, err, want)
				}
				pauses++
			}
			if err != nil {
				n.Fatal(err)
			}
		}
	}
	if pauses == 0 {
		n.Error("pause containers = 0; want some")
	}
}

// execed returns the CPUs of a process that exec starts in a container.
func (n *node) execed(pod, name string) (on cpuset.Set) {
	n.Helper()
	c, err := n.Find(pod, name)
	if err != nil {
		n.Fatal(err)
	}
	before := n.processes(c.Path)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.Try("crictl", "exec", c.ID, "/work", "exit", "0", "after", "20")
	}()
	n.Every(50*time.Millisecond, "an exec'd process", func() error {
		for _, pid := range n.processes(c.Path) {
			line, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if slices.Contains(before, pid) || err != nil || !strings.Contains(string(line), "after") || strings.Contains(string(line), "runc") {
				continue
			}
			on, err = allowedOf(pid)
			return err
		}
		return errors.New("no such container")
	})
	<-done
	return on
}

func (n *node) processes(p cgroup.Path) []string {
	n.Helper()
	pids, err := n.FS.ReadFile(p, "cgroup.procs")
	if err != nil {
		n.Fatal(err)
	}
	return strings.Fields(string(pids))
}
