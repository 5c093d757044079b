package inspect

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Explanation is why something runs where it runs.
type Explanation struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	// Asked is the name that was asked for, Subjects what it names: a container, all of a
	// pod, or a unit.
	Asked    string    `json:"asked"`
	Subjects []Subject `json:"subjects"`
}

// Subject is one container or unit that is explained.
type Subject struct {
	Container Container `json:"container"`
	// Rules are those that were tried, in their order, until one was met.
	Rules []Rule `json:"rules"`
	// Steps are what was done about CPUs of its own, in order.
	Steps []string `json:"steps,omitempty"`
	// Candidates are the places where its CPUs could be, or could have been, if it was to
	// have some of its own. FromScratch says that they are those that there were if it had
	// nothing now: it keeps what it has.
	Candidates  []Candidate `json:"candidates,omitempty"`
	FromScratch bool        `json:"fromScratch,omitempty"`
	// Problems are those of the container and of its pod.
	Problems []Problem `json:"problems,omitempty"`
	// Wanted is what its cgroup is to be, Kernel what the kernel says that it is.
	Wanted *Wanted `json:"wanted,omitempty"`
	Kernel *Kernel `json:"kernel,omitempty"`
	// Changes are what would lead to something else.
	Changes []Change `json:"changes,omitempty"`
	// Events are its decisions and writes that are kept, the oldest first.
	Events []history.Event `json:"events"`
}

// Rule is a question about a container or its pod.
type Rule struct {
	Question string `json:"question"`
	// Met says that it decided where the container belongs.
	Met bool `json:"met"`
	// Answer says why, or why not.
	Answer string `json:"answer"`
}

// Candidate is a part of the machine where CPUs could be taken.
type Candidate struct {
	// Place names it: "NUMA node 0", or "all nodes".
	Place string `json:"place"`
	// Free are the CPUs that nobody has there, Usable how many of them options let count.
	Free   cpuset.Set `json:"free"`
	Usable int        `json:"usable"`
	// CPUs are those that would be taken there, if it has room.
	CPUs cpuset.Set `json:"cpus,omitzero"`
	// Chosen says that it is the best; Why why, or why not.
	Chosen bool   `json:"chosen"`
	Why    string `json:"why"`
}

// Wanted is what a cgroup is to be.
type Wanted struct {
	CPUs   cpuset.Set `json:"cpus"`
	Mems   cpuset.Set `json:"mems,omitzero"`
	Weight uint64     `json:"weight,omitempty"` // 0 is left alone
	// Unlimited says that there is to be no quota.
	Unlimited bool `json:"unlimited,omitempty"`
}

// Kernel is what the kernel says of a cgroup at the moment.
type Kernel struct {
	Cgroup string `json:"cgroup"`
	// Error is why it, or some of it, could not be read.
	Error string `json:"error,omitempty"`
	// CPUs, Effective, Partition, Mems, Weight and Max are the cgroup's files
	// cpuset.cpus, cpuset.cpus.effective, cpuset.cpus.partition, cpuset.mems,
	// cpu.weight and cpu.max.
	CPUs      string `json:"cpus"`
	Effective string `json:"effective"`
	Partition string `json:"partition,omitempty"`
	Mems      string `json:"mems,omitempty"`
	Weight    string `json:"weight,omitempty"`
	Max       string `json:"max,omitempty"`
	// Threads is how many there are, Allowed where they may run: sets of CPUs, with the
	// number of threads that have it.
	Threads int       `json:"threads"`
	Allowed []Allowed `json:"allowed,omitempty"`
}

// Allowed is where some threads may run.
type Allowed struct {
	CPUs    string `json:"cpus"`
	Threads int    `json:"threads"`
}

// Change is something that would lead to another decision.
type Change struct {
	// What says what to do: an annotation, a request, the size of a pool.
	What string `json:"what"`
	// Then is where it would lead, tried on the node as it is now; empty where that was
	// not tried.
	Then string `json:"then,omitempty"`
}
