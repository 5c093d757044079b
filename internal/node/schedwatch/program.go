package schedwatch

import (
	_ "github.com/cilium/ebpf" // see the eBPF program of the next commit

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Program is the loaded and attached eBPF program. Release and Own belong to one goroutine; Read
// and Next may be called by others at the same time.
type Program struct{}

// Open loads the program and attaches it, for CPUs 0 to cpus-1. root is the directory of the cgroup
// root. No CPU has an owner yet. Open needs root or CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH. If the kernel
// refuses the program, errors.Is(err, ErrUnavailable) holds, and the error states cause and remedy.
func Open(root string, cpus int) (*Program, error) { return nil, ErrUnavailable }

// Close detaches the program and removes it from the kernel.
func (p *Program) Close() error { return nil }

// Release ends the watch of CPUs. Call it before the first write of a handover. It takes two
// memory accesses for each CPU and no system call.
func (p *Program) Release(cpus cpuset.Set) {}

// Own sets the owners of all CPUs. Call it after the last write of a handover, and again when the cgroup of
// an owner was made again under the same path. A CPU with the same owners as before keeps its watch
// without a gap. CPUs without an owner are released. The result holds the CPUs with a watch. The
// error describes why CPUs of an owner have none: a cgroup does not exist (errors.Is(err,
// fs.ErrNotExist)) or the kernel refuses an entry.
func (p *Program) Own(owners []Owner) (watched cpuset.Set, err error) {
	return cpuset.Set{}, ErrUnavailable
}

// EnableStatistics makes the kernel count runs and run time of all eBPF programs until Close. That
// costs some nanoseconds for each run.
func (p *Program) EnableStatistics() error { return ErrUnavailable }

// Read returns the counts. It removes the rows of Reading.Tasks from the kernel.
func (p *Program) Read() (Reading, error) { return Reading{}, ErrUnavailable }

// Next waits for the report of a foreign user task or kernel thread that is not bound to the CPU. The
// program reports one task of a kind on each CPU in ten seconds. The error is os.ErrClosed after Close.
func (p *Program) Next() (Task, error) { return Task{}, ErrUnavailable }
