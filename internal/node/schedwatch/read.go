package schedwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

const (
	// longSlice is the time after which Read looks for a task that runs without a switch.
	longSlice = time.Second
	// rowBatch is the number of rows that one system call reads and removes.
	rowBatch = 512
)

// Read returns the counts. It removes the rows of Reading.Tasks from the kernel.
func (p *Program) Read() (Reading, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	r := Reading{BTF: p.btf}
	before, err := p.snapshot()
	if err != nil {
		return Reading{}, err
	}
	running := map[int]*account.Slice{}
	for _, s := range before {
		if task, found := p.runningOn(s); found {
			r.Running = append(r.Running, task)
			running[s.cpu] = &account.Slice{Begin: s.begin, Kind: int(task.Kind), Time: task.Time}
		}
	}
	if r.Tasks, err = p.drain(); err != nil {
		return Reading{}, err
	}
	for _, s := range before {
		c := CPU{CPU: s.cpu, Watched: s.watched, Switches: s.seen}
		copy(c.Foreign[:], p.account(s.cpu).Counts(s.counts, running[s.cpu]))
		r.CPUs = append(r.CPUs, c)
		p.lost[s.cpu] = p.lost[s.cpu].At(s.lost)
		r.Lost += p.lost[s.cpu].Total
	}
	r.Lost += p.backlog.Lost()
	if stats, err := p.program.Stats(); err == nil { // without it, two figures are missing
		r.Runs, r.RunTime = stats.RunCount, stats.Runtime
	}
	return r, nil
}

// snapshot is the state of a CPU at one moment.
type snapshot struct {
	cpu        int
	watched    time.Duration
	seen       uint64
	lost       uint32
	counts     []account.Count
	tid        int    // of the task that runs
	begin, now uint64 // of its slice, and of the snapshot
}

// snapshot returns the state of each CPU that has or had an owner.
func (p *Program) snapshot() ([]snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("read the counts of CPUs: %w", os.ErrClosed)
	}
	cpus := slices.Collect(maps.Keys(p.watched))
	for e := range p.owners {
		cpus = append(cpus, e.CPU)
	}
	slices.Sort(cpus)
	cpus = slices.Compact(cpus)
	all := make([]snapshot, 0, len(cpus))
	for _, cpu := range cpus {
		c := p.memory.cpu(cpu)
		s := snapshot{cpu: cpu, counts: c.counts(), seen: atomic.LoadUint64(&c.Seen), lost: atomic.LoadUint32(&c.Lost), now: now()}
		s.watched = p.watched[cpu] + elapsed(atomic.LoadUint64(&c.Since), s.now)
		s.tid, s.begin = c.running()
		all = append(all, s)
	}
	return all, nil
}

func (p *Program) account(cpu int) *account.CPU {
	if p.accounts[cpu] == nil {
		p.accounts[cpu] = account.NewCPU(Kinds, int(Unknown))
	}
	return p.accounts[cpu]
}

// runningOn returns the task of a CPU if it is foreign and has run for over a second.
func (p *Program) runningOn(s snapshot) (Task, bool) {
	if s.tid == 0 || elapsed(s.begin, s.now) < longSlice {
		return Task{}, false
	}
	task, ids, err := p.tasks.read(s.cpu, s.tid)
	if err != nil || p.isOwner(s.cpu, ids) {
		return Task{}, false
	}
	if tid, begin := p.memory.cpu(s.cpu).running(); tid != s.tid || begin != s.begin {
		return Task{}, false // it was another task with this number, or its slice has ended
	}
	task.Time = elapsed(s.begin, s.now)
	return task, true
}

// drain reads and removes all rows. The program can add to a row while the row is removed. That slice
// is in the counts of the CPU and in no row. After an error, the next call returns the rows that were read.
func (p *Program) drain() ([]Task, error) {
	var cursor ebpf.MapBatchCursor
	read := make([]watchRow, rowBatch)
	rows, err := p.backlog.Drain(rowBatch, func(keys []watchKey, rows []account.Row) (n int, last bool, err error) {
		n, err = p.maps.Rows.BatchLookupAndDelete(&cursor, keys, read, nil)
		for i := range n {
			rows[i] = account.Row{Time: read[i].Ns, Switches: read[i].Switches, PID: read[i].Pid, TGID: read[i].Tgid}
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return n, true, nil
		}
		return n, false, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the foreign tasks: %w", err)
	}
	all := make([]Task, 0, len(rows))
	for key, row := range rows {
		task := p.tasks.task(key, row)
		if Kind(key.Kind) == Unknown { //nolint:gosec // a kind
			p.account(task.CPU).Resolve(int(task.Kind), account.Count{Time: task.Time, Switches: task.Switches})
		}
		all = append(all, task)
	}
	return all, nil
}

// report is a record of the ring buffer: struct report of watch.c.
type report struct {
	Key   watchKey
	Row   watchRow
	Since uint64 // identifies the watch of the CPU
}

// Next waits for the report of a foreign user task or of a kernel thread that is not bound to the CPU.
// The program reports one task of a kind on each CPU in ten seconds. The error is os.ErrClosed after
// Close.
func (p *Program) Next() (Task, error) {
	for {
		record, err := p.reports.Read()
		if err != nil {
			return Task{}, err
		}
		var r report
		if err := binary.Read(bytes.NewReader(record.RawSample), binary.NativeEndian, &r); err != nil {
			return Task{}, fmt.Errorf("read a report of the program: %w", err)
		}
		task := p.tasks.task(r.Key, account.Row{Time: r.Row.Ns, Switches: r.Row.Switches, PID: r.Row.Pid, TGID: r.Row.Tgid})
		if task.Kind != BoundKernel {
			p.mu.Lock()
			defer p.mu.Unlock()
			task.Owner = p.watches.Owner(task.CPU, r.Since) // the owner can have changed since
			return task, nil
		}
	}
}
