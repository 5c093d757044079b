package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Evidence holds an interval. Lines, Softirqs, Times and Usage are differences between its ends.
type Evidence struct {
	Elapsed  uint64 // nanoseconds
	Scans    int
	Count    int // tasks in the last scan
	Tasks    []Task
	Lines    []Line // of /proc/interrupts
	Softirqs []Line
	Times    map[int]Times // by CPU
	// Affinity holds the CPUs on which a device interrupt may fire, by its number.
	Affinity map[string]cpuset.Set
	// Usage is the CPU time of owners' cgroups in nanoseconds; unknown values have no entry.
	Usage map[string]uint64
}

// Evaluate returns the foreign tasks and interrupts. The order of the evidence does not matter.
func Evaluate(o Ownership, e Evidence) Report {
	j := evaluation{index: newIndex(o), Evidence: e, found: make(map[findingKey]*Finding), works: make(map[workKey]*KernelWork)}
	j.Tasks = slices.Clone(j.Tasks)
	slices.SortFunc(j.Tasks, func(a, b Task) int { return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID)) })
	for i := range j.Tasks {
		j.task(&j.Tasks[i])
	}
	for _, l := range e.Lines {
		j.line(l, "interrupt")
	}
	for _, l := range e.Softirqs {
		j.line(l, "softirq")
	}
	r := Report{Seconds: seconds(e.Elapsed), Scans: e.Scans, Tasks: e.Count, Findings: []Finding{}, Kernel: []KernelWork{}}
	for _, f := range j.found {
		f.TaskCount = len(f.Tasks)
		slices.SortStableFunc(f.Tasks, func(a, b TaskFinding) int { return cmp.Compare(b.RanSeconds, a.RanSeconds) })
		f.Tasks = slices.Clone(f.Tasks[:min(len(f.Tasks), maxTasks)])
		r.Findings = append(r.Findings, *f)
	}
	slices.SortFunc(r.Findings, compareFindings)
	for _, w := range j.works {
		r.Kernel = append(r.Kernel, *w)
	}
	slices.SortFunc(r.Kernel, func(a, b KernelWork) int {
		return cmp.Or(compareOwners(a.Owner, b.Owner), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Text, b.Text))
	})
	r.Scores = j.scores(r.Findings, r.Kernel)
	if e.Scans < 2 {
		r.NoScore = fmt.Sprintf("a score is about the time between two scans, and this audit has made %d; use --duration 1s or longer, and let the audit end", e.Scans)
	}
	return r
}

type findingKey struct {
	kind               Kind
	cgroup, name       string
	ownerPod, ownerApp string
	pool               PoolName
}

type workKey struct {
	pod, name          string
	pool               PoolName
	class, what, whats string
}

type evaluation struct {
	*index
	Evidence
	found map[findingKey]*Finding
	works map[workKey]*KernelWork
}

func (j *evaluation) task(t *Task) {
	kind := kindOf(t.Flags, t.Allowed)
	cpus := t.Allowed
	for cpu := range t.Ran {
		cpus = cpus.Union(cpuset.Of(cpu))
	}
	for _, o := range j.owners(j.foreign(t.Cgroup, cpus)) {
		ran, where := sumOn(t.Ran, o.CPUs)
		switch {
		case kind == Fixed || kind == PerCPU: // they cannot be moved to another CPU
			w := j.work(o, string(kind), "", "")
			w.Tasks++
			w.Seconds += seconds(ran)
			continue
		case kind == Worker && ran == 0: // all workers share one mask, and most of them never run
			j.work(o, string(kind), "", "").Tasks++
			continue
		}
		name := t.Leader
		if kind != Process {
			name = t.Comm
		}
		f := j.finding(findingKey{kind, t.Cgroup, name, o.Pod, o.Name, o.PoolName}, o)
		allowed := t.Allowed.Intersection(o.CPUs)
		f.Allowed, f.Ran = f.Allowed.Union(allowed), f.Ran.Union(where)
		f.RanSeconds += seconds(ran)
		f.Tasks = append(f.Tasks, TaskFinding{
			PID: t.PID, TID: t.TID, Name: t.Comm, Policy: policyName(t.Policy, t.Priority),
			Allowed: allowed, Ran: where, RanSeconds: seconds(ran),
		})
	}
}

// line adds an interrupt or a softirq. Only owners exclude interrupts; pools do not.
func (j *evaluation) line(l Line, class string) {
	device := class == "interrupt" && l.isDevice()
	for _, o := range j.owners(j.exclusive) {
		n, where := sumOn(l.Counts, o.CPUs)
		if n == 0 {
			continue
		}
		if !device {
			j.work(o, class, l.Name, l.Text).Count += n
			continue
		}
		f := j.finding(findingKey{kind: Interrupt, cgroup: l.Name, name: l.Text, ownerPod: o.Pod, ownerApp: o.Name, pool: o.PoolName}, o)
		f.Cgroup, f.Name = "", "IRQ "+l.Name+" "+l.device()
		f.Allowed, f.Ran = j.Affinity[l.Name].Intersection(o.CPUs).Union(where), f.Ran.Union(where)
		f.Count += n
	}
}

// device returns the actions, which follow chip, hardware number and trigger.
func (l Line) device() string {
	if words := strings.Fields(l.Text); len(words) > 0 {
		return words[len(words)-1]
	}
	return ""
}

func (j *evaluation) finding(k findingKey, o Owner) *Finding {
	f := j.found[k]
	if f == nil {
		f = &Finding{Kind: k.kind, Cgroup: k.cgroup, Name: k.name, Owner: o}
		if p, placed := j.place(k.cgroup); placed && p.Pod != "" {
			f.Pod, f.Container = p.Pod, p.Name
		} else if k.kind == Process {
			f.Unit = unitOf(k.cgroup)
		}
		j.found[k] = f
	}
	f.Owner.CPUs = f.Owner.CPUs.Union(o.CPUs)
	return f
}

func (j *evaluation) work(o Owner, class, name, text string) *KernelWork {
	k := workKey{o.Pod, o.Name, o.PoolName, class, name, text}
	if j.works[k] == nil {
		j.works[k] = &KernelWork{Owner: o, Class: class, Name: name, Text: text}
	}
	w := j.works[k]
	w.Owner.CPUs = w.Owner.CPUs.Union(o.CPUs)
	return w
}

// compareFindings sorts findings that ran first, those with the most CPU time at the top.
func compareFindings(a, b Finding) int {
	rank := func(f Finding) int {
		if f.Ran.IsEmpty() {
			return 1
		}
		return 0
	}
	return cmp.Or(rank(a)-rank(b), cmp.Compare(b.RanSeconds, a.RanSeconds), cmp.Compare(b.Count, a.Count),
		compareOwners(a.Owner, b.Owner), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Cgroup, b.Cgroup), cmp.Compare(a.Name, b.Name))
}

func compareOwners(a, b Owner) int {
	return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Name, b.Name))
}

// unitOf returns the innermost systemd unit of a cgroup, or the cgroup if no unit contains it.
func unitOf(cgroup string) string {
	names := strings.Split(cgroup, "/")
	for _, name := range slices.Backward(names) {
		for _, suffix := range []string{".service", ".scope", ".slice", ".socket", ".mount", ".swap"} {
			if strings.HasSuffix(name, suffix) {
				return strings.TrimPrefix(name, "_")
			}
		}
	}
	return cgroup
}

// policyName names a policy of include/uapi/linux/sched.h; empty for SCHED_OTHER.
func policyName(policy, priority int) string {
	names := map[int]string{1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
	name := names[policy]
	if policy == 1 || policy == 2 {
		name += " " + strconv.Itoa(priority)
	}
	return name
}

// scores returns the scores of the pools. The scores of the owners follow their guaranteed pool.
func (j *evaluation) scores(found []Finding, works []KernelWork) []Score {
	var all []Score
	for _, p := range j.Pools {
		s := Score{PoolName: p.PoolName, CPUs: p.CPUs}
		var owners []Score
		pods := make(map[string]bool) // with a pool that has its score
		for _, at := range j.Places {
			if at.PodPool && at.PoolName == p.PoolName && !pods[at.Pod] {
				pods[at.Pod] = true
				owners = append(owners, j.score(Score{PoolName: at.PoolName, Pod: at.Pod, CPUs: j.podPool(at.Pod)}, found, works))
			}
			if at.Exclusive && !at.PodPool && at.PoolName == p.PoolName {
				o := j.score(Score{PoolName: at.PoolName, Pod: at.Pod, Name: at.Name, CPUs: at.CPUs}, found, works)
				if used, known := j.Usage[at.Cgroup]; known && at.Mixed.IsEmpty() { // the cgroup's time includes time on shared CPUs
					busy := 0.0
					for cpu := range o.CPUs.All() {
						busy += seconds(j.Times[cpu].Tasks)
					}
					o.Unseen = max(0, busy-seconds(used)-o.Others-o.Kernel)
				}
				owners = append(owners, o)
			}
		}
		if owners != nil || p.Pool == "guaranteed" { // CPUs without an owner have no score
			s.CPUs = cpuset.Set{}
			for _, o := range owners {
				s.CPUs = s.CPUs.Union(o.CPUs)
				s.Unseen += o.Unseen
			}
		}
		if s.CPUs.IsEmpty() {
			continue
		}
		all = append(all, j.score(s, found, works))
		all = append(all, owners...)
	}
	return all
}

// podPool returns the CPUs that containers of a pod share. With several ResourceClaims they can differ.
func (j *evaluation) podPool(pod string) (cpus cpuset.Set) {
	for i := range j.Places {
		if p := &j.Places[i]; p.PodPool && p.Pod == pod {
			cpus = cpus.Union(p.CPUs)
		}
	}
	return cpus
}

// score completes s with the findings and the kernel's work on its CPUs.
func (j *evaluation) score(s Score, found []Finding, works []KernelWork) Score {
	s.Capacity = seconds(j.Elapsed) * float64(s.CPUs.Len())
	mine := func(o Owner) bool {
		return o.PoolName == s.PoolName && (s.Pod == "" && s.Name == "" || o.Pod == s.Pod && o.Name == s.Name)
	}
	for _, f := range found {
		if !mine(f.Owner) {
			continue
		}
		s.Others += f.RanSeconds
		s.DeviceInterrupts += f.Count
		s.ExposedTasks += f.TaskCount
	}
	for _, w := range works {
		if mine(w.Owner) {
			s.Kernel += w.Seconds
		}
	}
	for cpu := range s.CPUs.All() {
		s.Interrupts += seconds(j.Times[cpu].Interrupts)
		s.Stolen += seconds(j.Times[cpu].Stolen)
	}
	if exclusive := s.CPUs.Intersection(j.exclusive); !exclusive.IsEmpty() {
		for _, l := range j.Lines {
			if l.isDevice() && len(l.Counts) > 0 && !j.Affinity[l.Name].Intersection(exclusive).IsEmpty() {
				s.ExposedInterrupts++
			}
		}
	}
	if s.Capacity > 0 {
		value := 100 * max(0, 1-s.Others/s.Capacity)
		s.Score = &value
	}
	return s
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
