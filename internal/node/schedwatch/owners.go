package schedwatch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Release ends the watch of CPUs. Call it before the first write of a handover. It takes some memory
// accesses for each CPU.
func (p *Program) Release(cpus cpuset.Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for cpu := range cpus.All() {
		if cpu < p.cpus {
			p.stop(cpu)
		}
	}
}

func (p *Program) stop(cpu int) {
	if d := p.memory.cpu(cpu).stop(); d > 0 {
		p.watched[cpu] += d
	}
}

// Own sets the owners of all CPUs. Call it after the last write of a handover, and again when the
// cgroup of an owner was made again under the same path. A CPU with the same owners as before keeps
// its watch without a gap. CPUs without an owner are released. The result holds the CPUs with a
// watch. The error describes why CPUs of an owner have no watch: a cgroup does not exist
// (errors.Is(err, fs.ErrNotExist)), or the kernel refuses an entry.
func (p *Program) Own(owners []Owner) (watched cpuset.Set, err error) {
	wanted, names, errs := p.wanted(owners)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return cpuset.Set{}, fmt.Errorf("set owners: %w", os.ErrClosed)
	}
	change := account.Changes(p.owners, wanted, func(cpu int) bool { return atomic.LoadUint64(&p.memory.cpu(cpu).Since) != 0 })
	for _, cpu := range change.Stop {
		p.stop(cpu)
	}
	refused := map[int]bool{}
	for _, e := range change.Remove {
		if err := p.maps.Owners.Delete(entry(e)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("remove an owner of CPU %d: %w", e.CPU, err))
			refused[e.CPU] = true // a task of the old owner would not be foreign
			continue
		}
		delete(p.owners, e)
	}
	for _, e := range change.Add {
		if err := p.maps.Owners.Put(entry(e), uint8(1)); err != nil {
			errs = append(errs, fmt.Errorf("set an owner of CPU %d: %w", e.CPU, err))
			refused[e.CPU] = true
			continue
		}
		p.owners[e] = true
	}
	for _, cpu := range change.Start {
		if !refused[cpu] {
			since := now()
			p.watches.Begin(cpu, since)
			atomic.StoreUint64(&p.memory.cpu(cpu).Since, since)
		}
	}
	for cpu := range refused {
		p.stop(cpu)
	}
	var all []int
	for e := range wanted {
		if !refused[e.CPU] {
			p.watches.Name(e.CPU, names[e.CPU])
			all = append(all, e.CPU)
		}
	}
	return cpuset.Of(all...), errors.Join(errs...)
}

func entry(e account.Entry) watchOwner {
	return watchOwner{Cgroup: e.Cgroup, Cpu: uint64(e.CPU)} //nolint:gosec // not negative
}

// wanted returns the table of owners with the ids of their cgroups, and the IDs of owners by CPU. The result
// omits a CPU if the cgroup of one of its owners does not exist: that owner may begin later, and its tasks are
// not foreign.
func (p *Program) wanted(owners []Owner) (wanted account.Owners, names map[int]string, errs []error) {
	wanted, names = account.Owners{}, map[int]string{}
	skipped := cpuset.Set{}
	for _, o := range owners {
		ids := make([]uint64, 0, len(o.Cgroups))
		for _, path := range o.Cgroups {
			id, err := p.tasks.id(path)
			if err != nil {
				errs = append(errs, fmt.Errorf("watch CPUs %s: %w", o.CPUs, err))
				skipped = skipped.Union(o.CPUs)
				continue
			}
			ids = append(ids, id)
		}
		for cpu := range o.CPUs.All() {
			if cpu >= p.cpus {
				errs = append(errs, fmt.Errorf("watch CPU %d: the program was loaded for %d CPUs", cpu, p.cpus))
				continue
			}
			for _, id := range ids {
				wanted[account.Entry{CPU: cpu, Cgroup: id}] = true
			}
			if names[cpu] == "" {
				names[cpu] = o.ID
			}
		}
	}
	maps.DeleteFunc(wanted, func(e account.Entry, _ bool) bool { return skipped.Contains(e.CPU) })
	return wanted, names, errs
}

// isOwner reports whether a cgroup with one of these ids is an owner of a CPU.
func (p *Program) isOwner(cpu int, ids []uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(ids, func(id uint64) bool { return p.owners[account.Entry{CPU: cpu, Cgroup: id}] })
}
