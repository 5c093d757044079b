package simulate

import (
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Comparison is one node under two configurations.
type Comparison struct {
	Version int `json:"version"`
	// Pools holds the sizes under both configurations. Containers holds the containers whose
	// pool or exclusive CPUs differ.
	Pools      []PoolChange      `json:"pools"`
	Containers []ContainerChange `json:"containers"`
	// Refused holds refusals of the second configuration alone, Granted refusals of the first
	// configuration alone.
	Refused []Refusal `json:"refused"`
	Granted []Refusal `json:"granted"`
	Before  *Document `json:"before,omitempty"`
	After   *Document `json:"after,omitempty"`
}

// PoolChange is a pool under both configurations; nil if a configuration lacks it.
type PoolChange struct {
	Name   string        `json:"name"`
	Type   string        `json:"type,omitempty"`
	Before *inspect.Pool `json:"before,omitempty"`
	After  *inspect.Pool `json:"after,omitempty"`
}

// ContainerChange is a container or unit under both configurations; nil if it is missing.
type ContainerChange struct {
	Name   string             `json:"name"` // in full
	Before *inspect.Container `json:"before,omitempty"`
	After  *inspect.Container `json:"after,omitempty"`
}

// Compare returns the differences between two simulations of one node.
func Compare(before, after *Document) *Comparison {
	c := &Comparison{Version: Version, Containers: []ContainerChange{}, Before: before, After: after}
	c.Pools = poolChanges(before.Pools, after.Pools)
	was, is := byName(before.Containers), byName(after.Containers)
	for name, b := range was {
		if a := is[name]; a == nil || differs(b, a) {
			c.Containers = append(c.Containers, ContainerChange{name, b, a})
		}
	}
	for name, a := range is {
		if was[name] == nil {
			c.Containers = append(c.Containers, ContainerChange{name, nil, a})
		}
	}
	slices.SortFunc(c.Containers, func(a, b ContainerChange) int { return strings.Compare(a.Name, b.Name) })
	c.Refused, c.Granted = onlyIn(after, before), onlyIn(before, after)
	return c
}

func byName(containers []inspect.Container) map[string]*inspect.Container {
	all := make(map[string]*inspect.Container, len(containers))
	for i := range containers {
		all[containers[i].Full()] = &containers[i]
	}
	return all
}

// poolChanges are all pools of both, in their order: management by type, shared,
// guaranteed.
func poolChanges(before, after []inspect.Pool) []PoolChange {
	var all []PoolChange
	for i := range before {
		all = append(all, PoolChange{Name: before[i].Name, Type: before[i].Type, Before: &before[i]})
	}
	for i := range after {
		a := &after[i]
		at := slices.IndexFunc(all, func(p PoolChange) bool { return p.Name == a.Name && p.Type == a.Type })
		if at < 0 {
			at = slices.IndexFunc(all, func(p PoolChange) bool {
				return p.Name != inspect.Management || a.Name == inspect.Management && p.Type > a.Type
			})
			all = slices.Insert(all, at, PoolChange{Name: a.Name, Type: a.Type})
		}
		all[at].After = a
	}
	return all
}

// onlyIn are the refusals of one document that the other does not have.
func onlyIn(one, other *Document) []Refusal {
	has := make(map[string]bool, len(other.Refused))
	for i := range other.Refused {
		has[other.Refused[i].key()] = true
	}
	return slices.DeleteFunc(append([]Refusal{}, one.Refused...), func(r Refusal) bool { return has[r.key()] })
}
