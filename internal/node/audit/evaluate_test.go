package audit_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	kthread = 0x00200000
	fixed   = 0x04000000 | kthread
	worker  = 0x20 | fixed
	second  = 1_000_000_000
)

// node returns a node with CPUs 0-1 for management, 2-3 for the shared pool, and two owners with
// 4-5 and 6. Its system.slice is confined.
func node() audit.Ownership {
	guaranteed, shared, management := audit.PoolName{Pool: "guaranteed"}, audit.PoolName{Pool: "shared"}, audit.PoolName{Pool: "management", Type: "management"}
	return audit.Ownership{
		Places: []audit.Place{
			{PoolName: guaranteed, Pod: "ran/du", Name: "du", Cgroup: "kubepods/a/du", CPUs: cpuset.Range(4, 5), Exclusive: true},
			{PoolName: guaranteed, Name: "ptp.service", Cgroup: "system.slice/ptp.service", CPUs: cpuset.Of(6), Exclusive: true},
			{PoolName: shared, Pod: "web/w", Name: "w", Cgroup: "kubepods/b/w", CPUs: cpuset.Range(2, 3)},
			{PoolName: management, Name: "system.slice", Cgroup: "system.slice", CPUs: cpuset.Of(0, 1, 6)},
		},
		Pools: []audit.Pool{
			{PoolName: guaranteed, CPUs: cpuset.Range(4, 7)},
			{PoolName: management, CPUs: cpuset.Range(0, 1)},
			{PoolName: shared, CPUs: cpuset.Range(2, 3)},
		},
	}
}

func task(pid int, comm, cgroup string, flags uint64, allowed cpuset.Set, ran map[int]uint64) audit.Task {
	return audit.Task{Reading: audit.Reading{TID: pid, Comm: comm, Flags: flags}, PID: pid, Leader: comm, Cgroup: cgroup, Allowed: allowed, Ran: ran}
}

// findingLine is a finding in one line.
type findingLine struct {
	Kind         audit.Kind
	Who, Name    string
	Owner        string
	Allowed, Ran string
	Seconds      float64
	Count        uint64
	Tasks        int
}

func findingLines(r audit.Report) []findingLine {
	var all []findingLine
	for _, f := range r.Findings {
		who := f.Unit
		if f.Pod != "" {
			who = f.Pod + "/" + f.Container
		}
		owner := f.Owner.Pool
		if f.Owner.Name != "" {
			owner = f.Owner.Name
		}
		all = append(all, findingLine{f.Kind, who, f.Name, owner, f.Allowed.String(), f.Ran.String(), f.RanSeconds, f.Count, f.TaskCount})
	}
	return all
}

func TestEvaluate(t *testing.T) {
	all := cpuset.Range(0, 7)
	e := audit.Evidence{
		Elapsed: 10 * second, Scans: 100, Count: 1000,
		Tasks: []audit.Task{
			task(1, "systemd", "init.scope", 0, all, nil),                                          // has no place, and may run on owners' CPUs
			task(10, "sshd", "system.slice/ssh.service", 0, cpuset.Of(0, 1, 6), nil),               // in a slice that contains the CPU of a unit
			task(11, "ptp4l", "system.slice/ptp.service/x", 0, cpuset.Of(6), map[int]uint64{6: 5}), // on its own CPU
			task(12, "w", "kubepods/b/w", 0, cpuset.Range(2, 4), map[int]uint64{2: second, 4: second}),
			task(13, "hog", "user.slice/u.scope", 0, cpuset.Of(5), map[int]uint64{5: 2 * second}),
			task(14, "hog", "user.slice/u.scope", 0, cpuset.Of(5), map[int]uint64{5: second}),
			task(15, "helper", "kubepods/a/du/threads", 0, cpuset.Range(3, 5), map[int]uint64{3: second / 2}), // on its owner's CPUs, and elsewhere
			task(2, "kthreadd", "", kthread, all, nil),
			task(20, "ksoftirqd/4", "", fixed, cpuset.Of(4), map[int]uint64{4: second / 4}),
			task(21, "kworker/R-x", "", fixed, all, nil),
			task(22, "kworker/u16:1", "", worker, all, map[int]uint64{0: second}),
			task(23, "kworker/u16:2", "", worker, all, map[int]uint64{4: second / 10}),
			task(24, "bound", "", kthread, cpuset.Of(4), nil), // by an administrator: it follows another affinity
		},
		Lines: []audit.Line{
			{Name: "25", Text: "PCI-MSIX 1-edge eth0-rx", Counts: map[int]uint64{0: 9, 5: 40}},
			{Name: "26", Text: "PCI-MSIX 2-edge eth0-tx", Counts: map[int]uint64{0: 9}},
			{Name: "LOC", Text: "Local timer interrupts", Counts: map[int]uint64{0: 2500, 4: 10, 5: 2500}},
		},
		Softirqs: []audit.Line{{Name: "TIMER", Counts: map[int]uint64{4: 10}}},
		Times: map[int]audit.Times{
			4: {Tasks: 10 * second, Interrupts: second / 2}, 5: {Tasks: 9 * second, Stolen: second / 4}, 6: {Tasks: second},
		},
		Affinity: map[string]cpuset.Set{"25": cpuset.Of(5), "26": cpuset.Of(4)},
		Usage:    map[string]uint64{"kubepods/a/du": 13 * second},
	}
	r := audit.Evaluate(node(), e)
	want := []findingLine{
		{audit.Process, "u.scope", "hog", "du", "5", "5", 3, 0, 2},
		{audit.Process, "web/w/w", "w", "du", "4", "4", 1, 0, 1},
		{audit.Process, "ran/du/du", "helper", "shared", "3", "3", 0.5, 0, 1},
		{audit.Worker, "", "kworker/u16:2", "du", "4-5", "4", 0.1, 0, 1},
		{audit.Interrupt, "", "IRQ 25 eth0-rx", "du", "5", "5", 0, 40, 0},
		{audit.Thread, "", "kthreadd", "ptp.service", "6", "", 0, 0, 1},
		{audit.Process, "init.scope", "systemd", "ptp.service", "6", "", 0, 0, 1},
		{audit.Process, "ssh.service", "sshd", "ptp.service", "6", "", 0, 0, 1},
		{audit.Thread, "", "bound", "du", "4", "", 0, 0, 1},
		{audit.Thread, "", "kthreadd", "du", "4-5", "", 0, 0, 1},
		{audit.Process, "init.scope", "systemd", "du", "4-5", "", 0, 0, 1},
	}
	near := cmpopts.EquateApprox(0, 1e-9)
	byOwner := cmpopts.SortSlices(func(a, b findingLine) bool { return a.Owner+a.Name < b.Owner+b.Name })
	if diff := cmp.Diff(want, findingLines(r), near, byOwner); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if first := r.Findings[0]; first.Name != "hog" || first.Tasks[0].PID != 13 {
		t.Errorf("first is %+v; want who ran longest", first)
	}
	if n := len(r.OnlyRan().Findings); n != 5 {
		t.Errorf("%d findings ran; want 5", n)
	}
	scores := map[string]audit.Score{}
	for _, s := range r.Scores {
		scores[s.Pool+s.Pod+s.Name] = s
	}
	du := scores["guaranteedran/dudu"]
	if diff := cmp.Diff(audit.Score{
		PoolName: audit.PoolName{Pool: "guaranteed"}, Pod: "ran/du", Name: "du", CPUs: cpuset.Range(4, 5),
		Score: new(100 * (1 - 4.1/20)), Capacity: 20, Others: 4.1, Kernel: 0.25, Interrupts: 0.5, Stolen: 0.25, Unseen: 19 - 13 - 4.1 - 0.25,
		ExposedTasks: 7, ExposedInterrupts: 2, DeviceInterrupts: 40,
	}, du, near); diff != "" {
		t.Errorf("score of du (-want +got):\n%s", diff)
	}
	if s := scores["guaranteed"]; s.Capacity != 30 || s.ExposedTasks != 10 || !s.CPUs.Equal(cpuset.Range(4, 6)) {
		t.Errorf("score of the pool: %+v; want that of CPUs 4-6, which somebody has", s)
	}
	if s := scores["shared"]; s.Score == nil || *s.Score != 97.5 || s.Unseen != 0 {
		t.Errorf("score of the shared pool: %+v; want 97.5", s)
	}
	if s := scores["management"]; s.Score == nil || *s.Score != 100 || s.ExposedTasks != 0 {
		t.Errorf("score of the management pool: %+v; want 100", s)
	}
	classes := map[string]int{}
	for _, w := range r.Kernel {
		classes[w.Class+" "+w.Name+" "+w.Owner.Name] = w.Tasks + int(w.Count)
	}
	if diff := cmp.Diff(map[string]int{
		"per-cpu-kernel-thread  du": 1, "fixed-kernel-thread  du": 1, "fixed-kernel-thread  ptp.service": 1,
		"workqueue  du": 1, "workqueue  ptp.service": 2, "interrupt LOC du": 2510, "softirq TIMER du": 10,
	}, classes); diff != "" {
		t.Errorf("work of the kernel (-want +got):\n%s", diff)
	}
	slices.Reverse(e.Tasks)
	slices.Reverse(e.Lines)
	if diff := cmp.Diff(r, audit.Evaluate(node(), e)); diff != "" {
		t.Errorf("the other way round (-want +got):\n%s", diff)
	}
}

// TestNoForeignTasks checks that a node in the desired state has no findings.
func TestNoForeignTasks(t *testing.T) {
	e := audit.Evidence{Elapsed: second, Scans: 2, Tasks: []audit.Task{
		task(1, "systemd", "init.scope", 0, cpuset.Range(0, 3), map[int]uint64{2: second}),
		task(2, "du", "kubepods/a/du", 0, cpuset.Range(4, 5), map[int]uint64{4: second}),
		task(3, "w", "kubepods/b/w", 0, cpuset.Range(2, 3), map[int]uint64{3: second}),
		task(4, "cpuhp/4", "", fixed, cpuset.Of(4), map[int]uint64{4: 10}),
	}}
	r := audit.Evaluate(node(), e)
	if len(r.Findings) > 0 {
		t.Errorf("findings: %+v", findingLines(r))
	}
	for _, s := range r.Scores {
		if s.Score == nil || *s.Score != 100 || s.ExposedTasks != 0 {
			t.Errorf("score %+v; want 100", s)
		}
	}
	if r := audit.Evaluate(audit.Ownership{}, e); len(r.Findings)+len(r.Scores) > 0 {
		t.Errorf("on a node without pools: %+v", r)
	}
}

// TestSettled checks that changes of ownership during an audit cause no findings.
func TestSettled(t *testing.T) {
	before, after := node(), node()
	after.Places[0].CPUs = cpuset.Of(4, 7) // du was moved from CPU 5 to 7
	after.Places = append(after.Places[:1:1], after.Places[2:]...)
	o, changed := audit.Settled(before, after)
	if want := cpuset.Range(5, 7); !changed.Equal(want) {
		t.Errorf("changed: %s; want %s", changed, want)
	}
	r := audit.Evaluate(o, audit.Evidence{Elapsed: second, Tasks: []audit.Task{
		task(1, "du", "kubepods/a/du", 0, cpuset.Of(4, 5, 7), map[int]uint64{5: second}),
		task(2, "ptp4l", "system.slice/ptp.service", 0, cpuset.Of(6), map[int]uint64{6: second}),
		task(3, "w", "kubepods/b/w", 0, cpuset.Range(2, 7), map[int]uint64{7: second}),
	}})
	if diff := cmp.Diff([]findingLine{{audit.Process, "web/w/w", "w", "du", "4", "", 0, 0, 1}}, findingLines(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestPodPoolScore checks that the score of a pod counts all CPUs that its containers share, and no
// findings on the CPUs of others.
func TestPodPoolScore(t *testing.T) {
	o := node()
	guaranteed := o.Places[0].PoolName
	for name, cpus := range map[string]cpuset.Set{"a": cpuset.Of(8), "b": cpuset.Of(8, 9)} {
		o.Places = append(o.Places, audit.Place{PoolName: guaranteed, Pod: "ran/cu", Name: name, Cgroup: "kubepods/c/" + name, CPUs: cpus, Exclusive: true, PodPool: true})
	}
	r := audit.Evaluate(o, audit.Evidence{Elapsed: 1e9, Scans: 2, Tasks: []audit.Task{task(1, "x", "kubepods/b/w", 0, cpuset.Range(0, 4), map[int]uint64{4: 5e8})}})
	for _, s := range r.Scores {
		if s.Pod != "ran/cu" {
			continue
		}
		if s.CPUs.String() != "8-9" || s.ExposedTasks != 0 || *s.Score != 100 {
			t.Errorf("score %+v; want CPUs 8-9 without foreign tasks", s)
		}
		return
	}
	t.Errorf("scores %+v; want one of the pod", r.Scores)
}
