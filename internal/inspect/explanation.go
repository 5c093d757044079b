package inspect

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Explanation gives the reasons for the CPUs of containers or units.
type Explanation struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"` // time of the request
	// Asked is the name in the request. Subjects are the container, the containers of the pod, the
	// unit, or the containers of the ResourceClaim with this name.
	Asked    string    `json:"asked"`
	Subjects []Subject `json:"subjects"`
	// Notes state what the answer lacks, one sentence each.
	Notes []string `json:"notes,omitempty"`
}

// HasContainer reports whether a subject is a unit, or a container other than the pause container of a pod.
func (e *Explanation) HasContainer() bool {
	return slices.ContainsFunc(e.Subjects, func(s Subject) bool { return s.Container.Code != string(pools.CodePause) })
}

// Subject is a container or unit with its explanation.
type Subject struct {
	Container Container `json:"container"`
	// Sentence states the CPUs with the reason. Fix states the change that would give other CPUs; it
	// is empty if no change is needed. Subjects of one pod can have the same sentence.
	Sentence string `json:"sentence"`
	Fix      string `json:"fix,omitempty"`
	// Rules are the rules in the order in which they were checked. The last one was met.
	Rules []Rule `json:"rules"`
	// Candidates are the parts of the machine in which the allocator can find exclusive CPUs for the
	// subject. The allocator ignores its present CPUs here, although a subject keeps them.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Changes would lead to another decision. Each was tried on the present state of the node.
	Changes []Change `json:"changes,omitempty"`
	// Claims are the ResourceClaims of which the container has its CPUs.
	Claims []Claim `json:"claims,omitempty"`
	// Problems are the problems of the subject and of its pod.
	Problems []Problem `json:"problems"`
	// Wanted is the desired state of the cgroup. It is absent while the daemon has no value to write.
	Wanted *Wanted `json:"wanted,omitempty"`
	// Kernel holds the kernel's values of the cgroup. It is absent without a cgroup.
	Kernel *Kernel `json:"kernel,omitempty"`
	// Faults and Waits belong to the cgroup, as in Status.
	Faults []Fault `json:"faults,omitempty"`
	Waits  []Wait  `json:"waits,omitempty"`
	// Events are the decisions and writes in the history, the oldest first. Earlier counts the older
	// ones that are not in Events.
	Events  []history.Event `json:"events"`
	Earlier int             `json:"earlier,omitempty"`
}

// Rule is a statement that decides the pool of a container if it is true.
type Rule struct {
	// Name is stable. Statement is the sentence.
	Name      string `json:"name"`
	Statement string `json:"statement"`
	// Met is true if the rule has decided. Answer gives the reason.
	Met    bool   `json:"met"`
	Answer string `json:"answer,omitempty"`
}

// Candidate is a part of the machine in which the allocator can find CPUs.
type Candidate struct {
	// Part is the name: a NUMA node, or a last-level cache or die of the only NUMA node. Node is the
	// number of the NUMA node. CPUs are the CPUs of the guaranteed pool in the part, and Free the
	// CPUs without another owner.
	Part string     `json:"part"`
	Node int        `json:"node"`
	CPUs cpuset.Set `json:"cpus"`
	Free cpuset.Set `json:"free"`
	// Would are the CPUs that the allocator would take if it had to take all from this part. They
	// are empty if it refuses, with the reason in Why.
	Would cpuset.Set `json:"would,omitzero"`
	// Has is true if the subject has CPUs in this part.
	Has bool   `json:"has,omitempty"`
	Why string `json:"why"`
}

// Change is a change of pod or configuration that would lead to another decision.
type Change struct {
	// The change is in What, and the resulting placement in Then.
	What string `json:"what"`
	Then string `json:"then"`
}

// Wanted is the desired state of a cgroup. Properties that the daemon does not write are absent.
type Wanted struct {
	CPUs   cpuset.Set `json:"cpus,omitzero"`
	Mems   cpuset.Set `json:"mems,omitzero"`
	Weight uint64     `json:"weight,omitempty"` // cpu.weight
	// Unlimited is true if the cgroup must have no quota. Otherwise a Quota above 0 is restored, with
	// its Period. Both are in microseconds.
	Unlimited bool  `json:"unlimited,omitempty"`
	Quota     int64 `json:"quota,omitempty"`
	Period    int64 `json:"period,omitempty"`
}

// Kernel holds the present content of the files of a cgroup.
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
	// Error is the reason if a file could not be read.
	Error string `json:"error,omitempty"`
}

// NameError reports a name of no object, or of several. Text lists similar objects.
type NameError struct{ Text string }

// Error implements error.
func (e *NameError) Error() string { return e.Text }

// Events is the reply to a request for the history.
type Events struct {
	Version int `json:"version"`
	// Started identifies the daemon. With another daemon, Seq counts from 1 again.
	Started time.Time `json:"started"`
	// Last is the Seq of the newest event, also if the request excludes it. A client that follows
	// the history requests the events after Last.
	Last uint64 `json:"last"`
	// Dropped counts the events that the history no longer holds.
	Dropped uint64          `json:"dropped"`
	Events  []history.Event `json:"events"`
}
