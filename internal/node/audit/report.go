package audit

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Report is what was seen in a while. Times are in seconds.
type Report struct {
	Seconds float64 `json:"seconds"`
	Looks   int     `json:"looks"` // at all tasks
	Tasks   int     `json:"tasks"` // at the last of them
	// Cost is the CPU time that the audit used itself; 0 where that is not known.
	Cost float64 `json:"costSeconds"`

	Scores   []Score   `json:"scores"`
	Findings []Finding `json:"findings"`
	// Kernel is the kernel's own work on CPUs that somebody has to himself.
	Kernel []KernelWork `json:"kernel"`
	// Changed are CPUs that changed hands meanwhile and were not judged.
	Changed cpuset.Set `json:"changed,omitzero"`
	// Unread are files that could not be read, so that something may be missing.
	Unread []string `json:"unread,omitempty"`
}

// Score says how much of a pool's CPUs, or of an owner's, was left to it.
type Score struct {
	PoolName
	// Pod and Name are the owner's, whose score it is; empty for a pool's, which in
	// the guaranteed pool is that of all owners together.
	Pod  string     `json:"pod,omitempty"`
	Name string     `json:"name,omitempty"`
	CPUs cpuset.Set `json:"cpus"`
	// Score is in 0..100: the share of the time of CPUs that did not go to others, who
	// are all in Findings. 100 means nobody else; an idle CPU is at its owner's disposal.
	Score float64 `json:"score"`
	// Capacity is the time of all CPUs together, Others what of it others used.
	Capacity float64 `json:"capacitySeconds"`
	Others   float64 `json:"othersSeconds"`
	// Kernel is what threads of the kernel used that belong to the CPUs, Interrupts the
	// time of interrupts and softirqs, and Stolen what the hypervisor has taken. None
	// of it lowers the score.
	Kernel     float64 `json:"kernelSeconds"`
	Interrupts float64 `json:"interruptSeconds"`
	Stolen     float64 `json:"stolenSeconds"`
	// Unseen is time of tasks that is neither the owner's nor anybody's who was seen, as
	// of processes that end within an interval; for CPUs that somebody has to himself.
	// It has the error of the kernel's own sampling, about 1 % of the time.
	Unseen float64 `json:"unseenSeconds"`
	// ExposedTasks and ExposedInterrupts may run there, whether or not they did:
	// those in Findings, and interrupts of devices that have fired anywhere.
	ExposedTasks      int `json:"exposedTasks"`
	ExposedInterrupts int `json:"exposedInterrupts"`
	// DeviceInterrupts have fired there.
	DeviceInterrupts uint64 `json:"deviceInterrupts"`
}

// Finding is somebody on an owner's CPUs who has nothing to do there: the tasks of one
// name in one cgroup, or an interrupt.
type Finding struct {
	Kind Kind `json:"kind"`
	// Pod, Container and Unit say who it is; all are empty for the kernel. Of a process
	// in a cgroup of its own making Unit is the innermost unit above.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Cgroup    string `json:"cgroup,omitempty"`
	// Name is that of the process, or of the thread of the kernel, or of the interrupt's
	// actions.
	Name  string `json:"name"`
	Owner Owner  `json:"owner"` // with all of its CPUs that are meant
	// Allowed are CPUs of the owner where it was allowed, Ran those where it ran.
	Allowed cpuset.Set `json:"allowed"`
	Ran     cpuset.Set `json:"ran,omitzero"`
	// RanSeconds is how long, Count how often an interrupt fired.
	RanSeconds float64 `json:"ranSeconds"`
	Count      uint64  `json:"count,omitempty"`
	// Tasks are at most maxTasks of them, those that ran most first; TaskCount is their
	// number.
	Tasks     []TaskFinding `json:"tasks,omitempty"`
	TaskCount int           `json:"taskCount,omitempty"`
}

// maxTasks bounds what of the tasks of a finding is listed.
const maxTasks = 32

// TaskFinding is a task of a finding.
type TaskFinding struct {
	PID  int    `json:"pid"`
	TID  int    `json:"tid"`
	Name string `json:"name"`
	// Policy is the scheduling policy where it is not SCHED_OTHER, with the priority of
	// a real-time task: "fifo 50".
	Policy     string     `json:"policy,omitempty"`
	Allowed    cpuset.Set `json:"allowed"`
	Ran        cpuset.Set `json:"ran,omitzero"`
	RanSeconds float64    `json:"ranSeconds"`
}

// KernelWork is work of the kernel that belongs to CPUs, or that nothing can move.
type KernelWork struct {
	Owner Owner `json:"owner"`
	// Class is a Kind of task, softirq or interrupt (of the architecture); Name is the
	// softirq's or the interrupt's, and Text what the kernel calls it.
	Class string `json:"class"`
	Name  string `json:"name,omitempty"`
	Text  string `json:"text,omitempty"`
	// Tasks, Seconds and Count say how much: of tasks the first two, else the last.
	Tasks   int     `json:"tasks,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Count   uint64  `json:"count,omitempty"`
}

// WhoRan is the report with those findings only that ran.
func (r Report) WhoRan() Report {
	var ran []Finding
	for _, f := range r.Findings {
		if !f.Ran.IsEmpty() {
			ran = append(ran, f)
		}
	}
	r.Findings = ran
	return r
}
