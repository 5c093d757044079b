package schedwatch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	// typeInformation exists if the kernel has type information for eBPF programs (CONFIG_DEBUG_INFO_BTF).
	typeInformation = "/sys/kernel/btf/vmlinux"
	// ownersPerCPU and fewestOwners bound the kernel's table of owners, which is allocated at once.
	ownersPerCPU = 16
	fewestOwners = 1024
	// reportBytes is the size of the ring buffer for reports: about 200 reports.
	reportBytes = 16384
)

// Program is the loaded and attached eBPF program. Release and Own belong to one goroutine. Other
// goroutines may call Read and Next at the same time.
type Program struct {
	cpus    int
	btf     bool
	maps    watchMaps
	program *ebpf.Program
	link    link.Link
	reports *ringbuf.Reader
	tasks   *tasks

	// reading excludes other calls of Read. It is locked before mu.
	reading  sync.Mutex
	accounts map[int]*account.CPU
	backlog  account.Backlog[watchKey]
	lost     map[int]account.Wrapping // switches without a row, by CPU

	// mu is held for memory accesses and for changes of the table of owners.
	mu         sync.Mutex
	memory     memory
	owners     account.Owners
	watched    map[int]time.Duration // until the end of the latest watch
	watches    account.Watches
	statistics io.Closer
	closed     bool
}

// Open loads the program and attaches it, for CPUs 0 to cpus-1. root is the directory of the cgroup
// root. No CPU has an owner yet. Open needs root, or CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH. If
// the kernel refuses the program, errors.Is(err, ErrUnavailable) holds, and the error states cause
// and remedy.
func Open(root string, cpus int) (*Program, error) {
	if cpus < 1 || cpus > cpuset.MaxCPUs {
		return nil, fmt.Errorf("watch %d CPUs: want 1 to %d", cpus, cpuset.MaxCPUs)
	}
	tasks, err := newTasks(root)
	if err != nil {
		return nil, err
	}
	p := &Program{cpus: cpus, tasks: tasks, accounts: map[int]*account.CPU{}, lost: map[int]account.Wrapping{},
		owners: account.Owners{}, watched: map[int]time.Duration{}, watches: account.Watches{}}
	if err := p.load(); err != nil {
		return nil, errors.Join(unavailable(err), p.Close())
	}
	return p, nil
}

// load loads the program for kernels with type information. Without, or if the kernel refuses that
// program, it loads the program for the tracepoint.
func (p *Program) load() error {
	_, err := os.Stat(typeInformation)
	if err == nil {
		if err = p.loadWith(watchProgWithBtf); err == nil {
			p.btf = true
			return nil
		}
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) && !isRefused(err) {
			return err
		}
	}
	if without := p.loadWith(watchProgWithoutBtf); without != nil {
		return fmt.Errorf("with type information: %w; on the tracepoint: %w", err, without)
	}
	return nil
}

// loadWith loads one of the two programs, with the maps.
func (p *Program) loadWith(name string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(plain(err), p.unload())
			p.link, p.reports, p.memory, p.program, p.maps = nil, nil, nil, nil, watchMaps{}
		}
	}()
	spec, err := loadWatch()
	if err != nil {
		return err
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	spec.Maps[watchMapCpus].MaxEntries = uint32(p.cpus)                                   //nolint:gosec // at most cpuset.MaxCPUs
	spec.Maps[watchMapOwners].MaxEntries = uint32(max(ownersPerCPU*p.cpus, fewestOwners)) //nolint:gosec // the same
	spec.Maps[watchMapReports].MaxEntries = uint32(max(reportBytes, os.Getpagesize()))    //nolint:gosec // a page

	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	p.program = collection.DetachProgram(name)
	p.maps = watchMaps{
		Cpus: collection.DetachMap(watchMapCpus), Owners: collection.DetachMap(watchMapOwners),
		Reports: collection.DetachMap(watchMapReports), Rows: collection.DetachMap(watchMapRows),
	}
	collection.Close()
	if p.memory, err = unix.Mmap(p.maps.Cpus.FD(), 0, p.cpus*sizeOfCPU, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the counts of CPUs into memory: %w", err)
	}
	if p.reports, err = ringbuf.NewReader(p.maps.Reports); err != nil {
		return err
	}
	if name == watchProgWithBtf {
		p.link, err = link.AttachTracing(link.TracingOptions{Program: p.program})
	} else {
		p.link, err = link.Tracepoint("sched", "sched_switch", p.program, nil)
	}
	return err
}

// unload detaches the program and removes it and its maps.
func (p *Program) unload() error {
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
	}
	if p.reports != nil {
		errs = append(errs, p.reports.Close())
	}
	if p.memory != nil {
		errs = append(errs, unix.Munmap(p.memory))
	}
	errs = append(errs, p.program.Close())
	for _, m := range []*ebpf.Map{p.maps.Cpus, p.maps.Owners, p.maps.Reports, p.maps.Rows} { // all, also after an error
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Close detaches the program and removes it from the kernel.
func (p *Program) Close() error {
	p.reading.Lock()
	defer p.reading.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var err error
	if p.statistics != nil {
		err = p.statistics.Close()
	}
	return errors.Join(err, p.unload(), p.tasks.close())
}

// EnableStatistics makes the kernel count runs and run time of all eBPF programs until Close. That
// costs some nanoseconds for each run.
func (p *Program) EnableStatistics() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.statistics != nil {
		return nil
	}
	var err error
	if p.statistics, err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME); err != nil {
		return fmt.Errorf("enable the kernel's statistics of eBPF programs: %w", err)
	}
	return nil
}
