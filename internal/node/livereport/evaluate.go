package livereport

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Owners returns the cgroups that own exclusive CPUs, as package schedwatch expects them. The owner of a
// pod pool is the slice of the pod: a container that starts and ends during the audit is not foreign there.
func Owners(o audit.Ownership) []schedwatch.Owner {
	var all []schedwatch.Owner
	for _, p := range o.Places {
		if p.Exclusive && !p.CPUs.IsEmpty() {
			cgroup := p.Cgroup
			if p.PodPool {
				cgroup = path.Dir(cgroup)
			}
			all = append(all, schedwatch.Owner{CPUs: p.CPUs, Cgroups: []string{cgroup}})
		}
	}
	return all
}

// Report returns the report of all readings so far. Before and after are the owners of CPUs at
// the begin and at the end of the readings. A CPU counts if both have the same owner with the
// same cgroups. The program knows only the cgroups of before, so a container that started again
// would be foreign on its own CPUs.
func (c *Collector) Report(before, after audit.Ownership) Report {
	e := evaluation{owners: make(map[int]ownerKey), counted: make(map[place]schedwatch.Count)}
	e.Probe = Probe{Mode: "tracepoint", Runs: c.last.Runs, Seconds: c.last.RunTime.Seconds()}
	if c.last.BTF {
		e.Probe.Mode = "btf"
	}
	e.compare(holders(before), holders(after))
	e.shares(c.last.CPUs)
	rows := make(map[key]*entry, len(c.rows))
	for k, at := range c.rows {
		one := *at // a running task adds to it
		rows[k] = &one
	}
	e.tasks(longest(add(rows, c.last.Running)), containers(before, after))
	if e.Watched == 0 {
		e.NoShare = "no exclusive CPU had the same owner during the whole audit; start a container or unit with exclusive CPUs, and repeat the audit"
		return e.Report
	}
	share := ratio(e.Foreign, e.Watched)
	e.Share = &share
	return e.Report
}

type evaluation struct {
	Report

	owners  map[int]ownerKey           // of the CPUs that count
	counted map[place]schedwatch.Count // of all tasks on these CPUs
}

// place is a CPU and a kind of tasks.
type place struct {
	cpu  int
	kind schedwatch.Kind
}

type ownerKey struct {
	audit.PoolName

	pod, name string
}

func (k ownerKey) owner(cpus cpuset.Set) audit.Owner {
	return audit.Owner{PoolName: k.PoolName, Pod: k.pod, Name: k.name, CPUs: cpus}
}

type holder struct {
	ownerKey

	cgroups string // sorted, with a line for each
}

func holders(o audit.Ownership) map[int]holder {
	places := slices.Clone(o.Places)
	slices.SortFunc(places, func(a, b audit.Place) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
	all := make(map[int]holder)
	for i := range places {
		p := &places[i]
		if !p.Exclusive {
			continue
		}
		for cpu := range p.CPUs.All() {
			h, known := all[cpu]
			if !known {
				h.ownerKey = ownerKey{PoolName: p.PoolName, pod: p.Pod, name: p.Name}
				if p.PodPool {
					h.name = ""
				}
			}
			h.cgroups += p.Cgroup + "\n"
			all[cpu] = h
		}
	}
	return all
}

// compare finds the CPUs that kept their owners.
func (e *evaluation) compare(was, is map[int]holder) {
	for cpu, h := range was {
		if is[cpu] != h {
			e.Changed = e.Changed.Union(cpuset.Of(cpu))
			continue
		}
		e.owners[cpu] = h.ownerKey
	}
	for cpu := range is {
		if _, known := was[cpu]; !known {
			e.Changed = e.Changed.Union(cpuset.Of(cpu))
		}
	}
}

type sums struct {
	cpus    cpuset.Set
	watched schedwatch.Count // without switches
	foreign schedwatch.Count // of foreign tasks, without the kernel's bound threads
}

func (s *sums) add(c *schedwatch.CPU) {
	s.cpus = s.cpus.Union(cpuset.Of(c.CPU))
	s.watched = s.watched.Plus(schedwatch.Count{Time: c.Watched})
	for kind, n := range c.Foreign {
		if schedwatch.Kind(kind) != schedwatch.BoundKernel {
			s.foreign = s.foreign.Plus(n)
		}
	}
}

// shares sums up the CPUs that count, by owner and by kind.
func (e *evaluation) shares(cpus []schedwatch.CPU) {
	owners := make(map[ownerKey]*sums)
	var all sums
	var kinds [schedwatch.Kinds]schedwatch.Count
	for i := range cpus {
		c := &cpus[i]
		k, counts := e.owners[c.CPU]
		if !counts {
			continue
		}
		if owners[k] == nil {
			owners[k] = &sums{}
		}
		owners[k].add(c)
		all.add(c)
		for kind, n := range c.Foreign {
			kinds[kind] = kinds[kind].Plus(n)
			e.counted[place{c.CPU, schedwatch.Kind(kind)}] = n
		}
	}
	e.CPUs, e.Watched, e.Foreign = all.cpus, all.watched.Time.Seconds(), all.foreign.Time.Seconds()
	e.Owners, e.Kinds = []OwnerShare{}, []Total{}
	for k, s := range owners {
		watched, foreign := s.watched.Time.Seconds(), s.foreign.Time.Seconds()
		e.Owners = append(e.Owners, OwnerShare{Owner: k.owner(s.cpus), Watched: watched, Foreign: foreign, Share: ratio(foreign, watched)})
	}
	slices.SortFunc(e.Owners, func(a, b OwnerShare) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	for kind, n := range kinds {
		e.Kinds = append(e.Kinds, total(kindName(schedwatch.Kind(kind)), n))
	}
}

// ratio returns the part of all without foreign time.
func ratio(foreign, all float64) float64 {
	if all == 0 {
		return 0
	}
	return max(0, 1-foreign/all)
}

func kindName(k schedwatch.Kind) string {
	return [schedwatch.Kinds]string{schedwatch.User: "user", schedwatch.BoundKernel: bound, schedwatch.OtherKernel: "kernel_other", schedwatch.Unknown: "unknown"}[k]
}

type rowKey struct {
	ownerKey

	kind          schedwatch.Kind
	command, path string
	cgroup        uint64 // of a removed cgroup
}

// row is a row before its times are seconds.
type row struct {
	schedwatch.Count

	cpus   cpuset.Set
	cgroup uint64
}

// tasks makes the rows of the CPUs that count.
func (e *evaluation) tasks(entries map[key]*entry, places map[string]audit.Place) {
	rows := make(map[rowKey]*row)
	for k, at := range entries {
		owner, counts := e.owners[k.cpu]
		if !counts {
			continue
		}
		on := place{k.cpu, k.kind} // a row can have a task that ended after the counts were read
		e.counted[on] = e.counted[on].Beyond(at.Count)
		to := rowKey{ownerKey: owner, kind: k.kind, command: k.command, path: at.path}
		if at.path == "" {
			to.cgroup = k.cgroup
		}
		if rows[to] == nil {
			rows[to] = &row{cgroup: k.cgroup}
		}
		r := rows[to]
		r.Count = r.Plus(at.Count)
		r.cpus = r.cpus.Union(cpuset.Of(k.cpu))
		r.cgroup = max(r.cgroup, k.cgroup) // of a cgroup that was made again, the newer one
	}
	e.Tasks = []Row{}
	for k, r := range rows {
		out := Row{Total: total(kindName(k.kind), r.Count), Owner: k.owner(r.cpus), Command: k.command, Cgroup: k.path, CgroupID: r.cgroup}
		if p, known := innermost(places, k.path); known {
			out.Pod, out.Container = p.Pod, p.Name
		}
		e.Tasks = append(e.Tasks, out)
	}
	slices.SortFunc(e.Tasks, compareRows)
	var more schedwatch.Count
	for _, rest := range e.counted {
		more = more.Plus(rest)
	}
	e.More = total("", more)
}

// compareRows sorts the kernel's bound threads behind all others, and by time.
func compareRows(a, b Row) int {
	rank := func(r *Row) int {
		if r.Kind == bound {
			return 1
		}
		return 0
	}
	return cmp.Or(rank(&a)-rank(&b), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Switches, a.Switches),
		cmp.Compare(a.Owner.CPUs.First(), b.Owner.CPUs.First()), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Command, b.Command), cmp.Compare(a.Cgroup, b.Cgroup), cmp.Compare(a.CgroupID, b.CgroupID))
}

func containers(of ...audit.Ownership) map[string]audit.Place {
	all := make(map[string]audit.Place)
	for _, o := range of {
		for _, p := range o.Places {
			if p.Pod != "" {
				all[p.Cgroup] = p
			}
		}
	}
	return all
}

func innermost(places map[string]audit.Place, cgroup string) (audit.Place, bool) {
	for cgroup != "" {
		if p, known := places[cgroup]; known {
			return p, true
		}
		cgroup = cgroup[:max(strings.LastIndexByte(cgroup, '/'), 0)]
	}
	return audit.Place{}, false
}
