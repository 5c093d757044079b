package simulate

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Version is the version of this package's documents. Fields may be added; existing
// fields keep their meaning.
const Version = 1

// Document holds the result of a simulation. Its pools, containers, problems, CPUs and
// topology have the form of [inspect.Status].
type Document struct {
	Version int `json:"version"`
	// Node is the node's name; empty if the pods are of no node.
	Node   string `json:"node,omitempty"`
	Config Config `json:"config"`
	// Pods is the number of pods on the node at the end.
	Pods       int                 `json:"pods"`
	Pools      []inspect.Pool      `json:"pools"`
	Room       *inspect.Room       `json:"room,omitempty"`
	Containers []inspect.Container `json:"containers"`
	// Devices and Claims are the CPUs of ResourceClaims, as in the status. Allocations are the devices of
	// all drivers that the scheduler has allocated.
	Devices     []inspect.ClaimDevice `json:"devices,omitempty"`
	Claims      []inspect.Claim       `json:"claims,omitempty"`
	Allocations []Allocation          `json:"allocations,omitempty"`
	// Refused holds the refusals at any time. Problems holds the problems at the end, with
	// refusals among them.
	Refused  []Refusal         `json:"refused"`
	Problems []inspect.Problem `json:"problems"`
	// Subjects are the explanations of all containers, if the caller requests them.
	Subjects []inspect.Subject `json:"subjects,omitempty"`
	// Notes name the parts that the simulation leaves out.
	Notes []string `json:"notes,omitempty"`
	// Steps are the events of a trace.
	Steps []Step `json:"steps,omitempty"`
	// Explanation is of the requested pod.
	Explanation *inspect.Explanation `json:"explanation,omitempty"`
	CPUs        []inspect.CPU        `json:"cpus"`
	Topology    *topology.Topology   `json:"topology,omitempty"`
}

// Config is the configuration that was simulated.
type Config struct {
	// File is empty without a file. Fresh reports whether the configuration is the one of a
	// fresh installation.
	File  string `json:"file,omitempty"`
	Fresh bool   `json:"fresh,omitempty"`
	// Adapted lists the settings that had no effect at the end, because CPUs were offline.
	Adapted []string `json:"adapted,omitempty"`
	// Offline are configured CPUs that were offline in the end.
	Offline cpuset.Set `json:"offline"`
}

// Step is the node after an event of a trace.
type Step struct {
	At    string `json:"at"` // since the beginning
	Event string `json:"event"`
	Pods  int    `json:"pods"`
	// Pools do not name the owners of CPUs. Containers holds the containers whose place has
	// changed, with their present CPUs. Ended names the containers that have ended.
	Pools      []inspect.Pool      `json:"pools"`
	Containers []inspect.Container `json:"containers"`
	Ended      []string            `json:"ended"`
	// Refused holds the names of containers with a refusal after the event.
	Refused []string `json:"refused"`
}

// Document returns the node as it is. File is the configuration's name.
func (n *Node) Document(file string) *Document {
	d := &Document{
		Version: Version, Config: Config{File: file, Adapted: n.adapted, Offline: n.input.Pools.Offline.Union(n.input.Pools.Away)},
		Pods: len(n.pods), Pools: n.pools(), Room: n.room(), Containers: n.containers(), Refused: append([]Refusal{}, n.refusals.all...),
		Problems: []inspect.Problem{}, Topology: n.topology,
	}
	d.Devices = inspect.ClaimDevices(&n.input.Pools, n.input.Machine, inspect.TakenByClaims(&n.plan))
	d.Claims, d.Allocations = inspect.ClaimsOf(&n.plan, n.plan.Problems), n.allocations()
	for _, p := range n.plan.Problems {
		d.Problems = append(d.Problems, inspect.ProblemOf(p))
	}
	if n.input.Pools.Kubelet {
		d.Notes = append(d.Notes, "guaranteed.exclusive is kubelet: allocations of the kubelet are not simulated, and its containers are shown without exclusive CPUs")
	}
	if n.ignored > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("ResourceClaims of pods are ignored, because the files do not have them: %d; save them, too (docs/how-to/simulate-claims.md)", n.ignored))
	}
	d.CPUs = inspect.CPUs(n.topology, &n.plan, d.Pools)
	return d
}

// room returns the free capacity of the guaranteed pool; nil without such a pool.
func (n *Node) room() *inspect.Room {
	p := &n.input.Pools
	if p.Guaranteed.IsEmpty() {
		return nil
	}
	pool := n.plan.Free
	for i := range n.plan.Assignments {
		pool = pool.Union(n.plan.Assignments[i].CPUs)
	}
	r := defrag.Vacant(defrag.Input{Machine: n.input.Machine, Pool: pool.Intersection(p.Guaranteed), Owners: pools.Owners(n.in(), n.plan)})
	limit := n.plan.Allocatable(*p)
	return &inspect.Room{Pool: min(r.Free, limit), NUMANode: min(r.OnNode, limit), L3: min(r.InL3, limit), WholeCores: min(r.InWholeCores, limit)}
}

// containers are without IDs, which a runtime would have made.
func (n *Node) containers() []inspect.Container {
	return inspect.Containers(&n.plan, func(c *inspect.Container) { c.ID = "" })
}

func (n *Node) pools() []inspect.Pool {
	p, plan := &n.input.Pools, &n.plan
	var all []inspect.Pool
	for _, part := range p.Partitions {
		all = append(all, inspect.Pool{Name: inspect.Management, Type: part.Type, CPUs: part.CPUs})
	}
	own := inspect.Pool{Name: inspect.Guaranteed, CPUs: p.Guaranteed, Free: plan.Free, Idle: plan.Idle, Resting: plan.Resting, FromShared: p.FromShared}
	for _, a := range plan.Assignments {
		if a.Claim == "" {
			own.Owned = own.Owned.Union(a.CPUs)
		}
	}
	all = append(all, inspect.Pool{Name: inspect.Shared, CPUs: plan.Shared}, own)
	if claims := inspect.PoolOfClaims(p, plan); claims != nil {
		all = append(all, *claims)
	}
	for _, c := range plan.Containers() {
		if c.Kind == pools.Infra || c.State == pools.Exited {
			continue
		}
		pool := c.Pool
		if pool == pools.Guaranteed && len(c.Claims) > 0 {
			pool = inspect.ClaimedPool
		}
		count(all, pool, c.Type)
	}
	for _, u := range plan.Units {
		count(all, u.Pool, u.Type)
	}
	return all
}

func count(all []inspect.Pool, pool pools.Pool, typ string) {
	for i := range all {
		if all[i].Name == string(pool) && all[i].Type == typ {
			all[i].Containers++
		}
	}
}

// elsewhere returns the containers that are new or whose place has changed, and the names
// of the containers that have ended. A change of a whole pool does not count.
func elsewhere(before, after []inspect.Container) (moved []inspect.Container, ended []string) {
	moved, ended = []inspect.Container{}, []string{}
	was := byName(before)
	for _, c := range after {
		old := was[c.Full()]
		delete(was, c.Full())
		if old == nil || differs(old, &c) {
			moved = append(moved, c)
		}
	}
	for i := range before {
		if was[before[i].Full()] != nil {
			ended = append(ended, before[i].Full())
		}
	}
	return moved, ended
}

// differs reports whether a container's pool, state or exclusive CPUs have changed.
func differs(a, b *inspect.Container) bool {
	return a.Pool != b.Pool || a.Type != b.Type || a.Exclusive != b.Exclusive || a.Refused != b.Refused || a.State != b.State ||
		a.Exclusive && !a.CPUs.Equal(b.CPUs)
}
