package livereport

import (
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Report is the result of a live audit. Times are in seconds, shares in 0..1.
type Report struct {
	// Seconds is the duration of the audit. Cost is the CPU time of its process.
	Seconds float64 `json:"seconds"`
	Cost    float64 `json:"costSeconds"`
	// CPUs holds the exclusive CPUs that kept their owners during the audit. Only these count.
	CPUs cpuset.Set `json:"cpus"`
	// Watched is the time of these CPUs together, Foreign the part that foreign tasks used.
	Watched float64 `json:"watchedSeconds"`
	Foreign float64 `json:"foreignSeconds"`
	// Share is the share of Watched without foreign tasks. Bound kernel threads do not affect it.
	// It is nil if no exclusive CPU was watched; NoShare is the reason.
	Share   *float64 `json:"share,omitempty"`
	NoShare string   `json:"noShare,omitempty"`

	Owners []OwnerShare `json:"owners"`
	Kinds  []Total      `json:"kinds"`
	// Tasks holds the rows: foreign tasks first, those with the most time at the top.
	Tasks []Row `json:"tasks"`
	// More counts the tasks that are in Kinds and not in Tasks.
	More Total `json:"more,omitzero"`

	// Changed holds the CPUs that got other owners, or other cgroups of their owners.
	Changed cpuset.Set `json:"changed,omitzero"`
	// Unread lists objects with unknown owners, and CPUs without a watch.
	Unread []string `json:"unread,omitempty"`
	Probe  Probe    `json:"probe"`
}

// Probe describes the eBPF program of an audit.
type Probe struct {
	// Mode is the attachment of the program: btf or tracepoint.
	Mode string `json:"mode"`
	// Runs and Seconds are the kernel's statistics of the program on all CPUs of the machine.
	// Both are 0 if the kernel does not count.
	Runs    uint64  `json:"runs"`
	Seconds float64 `json:"runSeconds"`
}

// OwnerShare is the share of one owner.
type OwnerShare struct {
	audit.Owner

	Watched float64 `json:"watchedSeconds"`
	Foreign float64 `json:"foreignSeconds"`
	Share   float64 `json:"share"`
}

// Total is the time and the context switches of tasks.
type Total struct {
	// Kind is user, kernel_bound, kernel_other or unknown: a task that ended before its kind was
	// read. It is empty for tasks of all kinds.
	Kind     string  `json:"kind,omitempty"`
	Seconds  float64 `json:"seconds"`
	Switches uint64  `json:"switches"`
}

// bound is the kind of kernel threads that can run on one CPU only.
const bound = "kernel_bound"

// IsForeign reports whether tasks of this kind ran and lower the share. The kernel's bound
// threads do not: the kernel must do their work on their CPU.
func (t Total) IsForeign() bool { return t.Kind != bound && (t.Switches > 0 || t.Seconds > 0) }

// Row is the tasks of one command in one cgroup on the CPUs of one owner.
type Row struct {
	Total

	Owner   audit.Owner `json:"owner"` // with the CPUs on which the tasks ran
	Command string      `json:"command"`
	// Cgroup is the path below the cgroup root; "/" for the root, and empty if the cgroup was
	// removed during the audit. CgroupID is its number in the kernel.
	Cgroup   string `json:"cgroup,omitempty"`
	CgroupID uint64 `json:"cgroupID"`
	// Pod and Container own the tasks. Both are empty for other tasks.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
}
