package inspect

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Explanation is why something runs where it runs.
type Explanation struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"` // when it was asked for
	// Asked is the name that was asked for, Subjects what it names: a container, all of a
	// pod, or a unit.
	Asked    string    `json:"asked"`
	Subjects []Subject `json:"subjects"`
	// Notes state what the answer lacks, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Subject is a container or unit that is explained.
type Subject struct {
	Container Container `json:"container"`
	// Sentence states where it runs and why. Fix states what to change for other CPUs; it is empty
	// if there is nothing to change. Subjects of one pod can have the same sentence.
	Sentence string `json:"sentence"`
	Fix      string `json:"fix,omitempty"`
	// Rules are those that were tried, in their order, until one was met.
	Rules []Rule `json:"rules"`
	// Candidates are the parts of the machine where CPUs of its own could be, if it asks for
	// any, as if it had none now: it keeps what it has.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Changes are what would lead elsewhere, each tried on the node as it is now.
	Changes []Change `json:"changes,omitempty"`
	// Problems are those of it and of its pod.
	Problems []Problem `json:"problems"`
	// Wanted is what its cgroup is to be; absent while there is nothing to write.
	Wanted *Wanted `json:"wanted,omitempty"`
	// Kernel is what the kernel says of its cgroup; absent while it has none.
	Kernel *Kernel `json:"kernel,omitempty"`
	// Faults and Waits are those of its cgroup, as in Status.
	Faults []Fault `json:"faults,omitempty"`
	Waits  []Wait  `json:"waits,omitempty"`
	// Events are its decisions and writes that are kept, the oldest first; Earlier is how
	// many of them are left out here.
	Events  []history.Event `json:"events"`
	Earlier int             `json:"earlier,omitempty"`
}

// Rule is a statement that decides where a container belongs when it is true.
type Rule struct {
	// Name is stable, Statement the sentence.
	Name      string `json:"name"`
	Statement string `json:"statement"`
	// Met says that it is true, and has decided; Answer says why, or why not.
	Met    bool   `json:"met"`
	Answer string `json:"answer,omitempty"`
}

// Candidate is a part of the machine where CPUs could be taken.
type Candidate struct {
	// Part names it: a NUMA node, or a last-level cache or die of the only one; Node is the
	// number of the NUMA node, CPUs those of the guaranteed pool in it, and Free those of
	// them that nobody else has.
	Part string     `json:"part"`
	Node int        `json:"node"`
	CPUs cpuset.Set `json:"cpus"`
	Free cpuset.Set `json:"free"`
	// Would are the CPUs that the allocator would take, if all were to come from here; empty
	// where it refuses, and Why says why.
	Would cpuset.Set `json:"would,omitzero"`
	// Has says that it has CPUs here.
	Has bool   `json:"has,omitempty"`
	Why string `json:"why"`
}

// Change is something that would lead to another decision.
type Change struct {
	// What says what to do; Then is where it would run.
	What string `json:"what"`
	Then string `json:"then"`
}

// Wanted is what a cgroup is to be; what is left alone is absent.
type Wanted struct {
	CPUs   cpuset.Set `json:"cpus,omitzero"`
	Mems   cpuset.Set `json:"mems,omitzero"`
	Weight uint64     `json:"weight,omitempty"` // cpu.weight
	// Unlimited says that there is to be no quota; else Quota and Period, in microseconds,
	// are to be put back where Quota is above 0.
	Unlimited bool  `json:"unlimited,omitempty"`
	Quota     int64 `json:"quota,omitempty"`
	Period    int64 `json:"period,omitempty"`
}

// Kernel is what the kernel says of a cgroup at the moment: the content of its files.
type Kernel struct {
	Cgroup string `json:"cgroup"`
	// CPUs and Effective are cpuset.cpus and cpuset.cpus.effective, Partition is
	// cpuset.cpus.partition, Mems and MemsEffective are cpuset.mems and
	// cpuset.mems.effective, Weight is cpu.weight and Max cpu.max.
	CPUs          string `json:"cpus"`
	Effective     string `json:"effective"`
	Partition     string `json:"partition,omitempty"`
	Mems          string `json:"mems,omitempty"`
	MemsEffective string `json:"memsEffective,omitempty"`
	Weight        string `json:"weight,omitempty"`
	Max           string `json:"max,omitempty"`
	// Error is why some of it could not be read.
	Error string `json:"error,omitempty"`
}

// NameError is a name that names nothing, or more than one thing. It says what there is.
type NameError struct{ Text string }

// Error implements error.
func (e *NameError) Error() string { return e.Text }

// Events is the answer to a question about the history.
type Events struct {
	Version int `json:"version"`
	// Started tells one daemon from the next: with another, Seq counts from 1 again.
	Started time.Time `json:"started"`
	// Last is the Seq of the newest event that there is, also of those that were not asked
	// for: ask for what is after it to follow.
	Last uint64 `json:"last"`
	// Dropped counts the events that are not kept any more.
	Dropped uint64          `json:"dropped"`
	Events  []history.Event `json:"events"`
}
