package audit

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Report is the result of an audit. Times are in seconds.
type Report struct {
	Seconds float64 `json:"seconds"`
	Scans   int     `json:"looks"` // scans of all tasks
	Tasks   int     `json:"tasks"` // in the last scan
	// Cost is the CPU time of the audit, or 0 if it is unknown.
	Cost float64 `json:"costSeconds"`

	Scores []Score `json:"scores"`
	// NoScore states why no Score is known, and the remedy; it is empty if the scores are known.
	NoScore  string    `json:"noScore,omitempty"`
	Findings []Finding `json:"findings"`
	// Kernel is the kernel's own work on exclusive CPUs.
	Kernel []KernelWork `json:"kernel"`
	// Changed holds CPUs that changed their owner during the audit and were not examined.
	Changed cpuset.Set `json:"changed,omitzero"`
	// Unread lists files that could not be read. Their content is missing in the report.
	Unread []string `json:"unread,omitempty"`
}

// Score is the score of a pool or of an owner.
type Score struct {
	PoolName
	// Pod and Name are empty for a pool. The guaranteed pool has the score of all owners.
	Pod  string     `json:"pod,omitempty"`
	Name string     `json:"name,omitempty"`
	CPUs cpuset.Set `json:"cpus"`
	// Score is the share of CPU time without foreign tasks, in 0..100. Idle time counts as the
	// owner's time. Findings holds the foreign tasks. Score is nil if there were fewer than two
	// scans.
	Score *float64 `json:"score,omitempty"`
	// Capacity is the time of all CPUs together, Others the CPU time of foreign tasks.
	Capacity float64 `json:"capacitySeconds"`
	Others   float64 `json:"othersSeconds"`
	// Kernel is the CPU time of kernel threads that belong to the CPUs. Interrupts is the time of
	// interrupts and softirqs, Stolen the time that the hypervisor took. They do not affect
	// Score.
	Kernel     float64 `json:"kernelSeconds"`
	Interrupts float64 `json:"interruptSeconds"`
	Stolen     float64 `json:"stolenSeconds"`
	// Unseen is the CPU time of tasks that no scan has seen, such as processes that exit between
	// two scans. It is zero for pools other than guaranteed. The kernel's own sampling has an
	// error of about 1 % of the time.
	Unseen float64 `json:"unseenSeconds"`
	// ExposedTasks is the number of foreign tasks that may run on these CPUs, whether or not they
	// did. ExposedInterrupts is the same for device interrupts that have fired on any CPU.
	ExposedTasks      int `json:"exposedTasks"`
	ExposedInterrupts int `json:"exposedInterrupts"`
	// DeviceInterrupts is the number of device interrupts on these CPUs.
	DeviceInterrupts uint64 `json:"deviceInterrupts"`
}

// Finding is the foreign tasks of one name in one cgroup, or a foreign interrupt.
type Finding struct {
	Kind Kind `json:"kind"`
	// Pod, Container and Unit (the innermost one) own the tasks; all are empty for the kernel.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`
	// Name is the process, the kernel thread, or number and action of the interrupt.
	Name  string `json:"name"`
	Owner Owner  `json:"owner"` // with the CPUs of this finding
	// Allowed holds the CPUs of the owner on which it may run, Ran the CPUs on which it ran.
	Allowed cpuset.Set `json:"allowed"`
	Ran     cpuset.Set `json:"ran,omitzero"`
	// RanSeconds is the CPU time of tasks, Count the number of interrupts.
	RanSeconds float64 `json:"ranSeconds"`
	Count      uint64  `json:"count,omitempty"`
	// Tasks holds at most maxTasks tasks, by CPU time. TaskCount is the number of all tasks.
	Tasks     []TaskFinding `json:"tasks,omitempty"`
	TaskCount int           `json:"taskCount,omitempty"`
}

const maxTasks = 32

// TaskFinding is one task of a finding.
type TaskFinding struct {
	PID  int    `json:"pid"`
	TID  int    `json:"tid"`
	Name string `json:"name"`
	// Policy is the scheduling policy and real-time priority: "fifo 50"; empty for SCHED_OTHER.
	Policy     string     `json:"policy,omitempty"`
	Allowed    cpuset.Set `json:"allowed"`
	Ran        cpuset.Set `json:"ran,omitzero"`
	RanSeconds float64    `json:"ranSeconds"`
}

// KernelWork is work of the kernel that belongs to the CPUs, or that cannot be moved.
type KernelWork struct {
	Owner Owner `json:"owner"`
	// Class is a Kind of task, softirq, or interrupt for an interrupt of the architecture. Name
	// is the name of the softirq or interrupt, Text its description by the kernel.
	Class string `json:"class"`
	Name  string `json:"name,omitempty"`
	Text  string `json:"text,omitempty"`
	// Tasks and Seconds count tasks and their CPU time, Count interrupts or softirqs.
	Tasks   int     `json:"tasks,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Count   uint64  `json:"count,omitempty"`
}

// OnlyRan returns the report with only the findings that ran.
func (r Report) OnlyRan() Report {
	r.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Ran.IsEmpty() })
	return r
}
