package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Decision is a plan with its input.
type Decision struct {
	Input *pools.Input
	Plan  *pools.Plan
	// Problems are the problems of the plan, and later ones.
	Problems []pools.Problem
	// Traces are the notes about the containers of one pod, by container ID.
	Traces map[string]*pools.Trace
	// Pod holds the facts about this pod.
	Pod *verdict.Pod
}

// Subject returns the explanation of a container or unit, without the state of its cgroup and
// without events. Changes are tried only if asked for: each costs a plan.
func (d *Decision) Subject(c *inspect.Container, changes bool) inspect.Subject {
	s := inspect.Subject{Container: *c, Problems: []inspect.Problem{}, Events: []history.Event{}}
	if c.Unit {
		s.Rules = []inspect.Rule{{Name: string(pools.RuleUnit), Statement: statement(pools.RuleUnit), Met: true, Answer: c.Reason}}
	} else {
		s.Rules = rulesOf(d.Traces[c.ID], c.Reason)
		d.alternatives(&s, changes)
	}
	for _, claim := range inspect.ClaimsOf(d.Plan, d.Problems) {
		if claim.IsUsedBy(c) {
			s.Claims = append(s.Claims, claim)
		}
	}
	for _, p := range d.Problems {
		if p.Claim != "" && !slices.Contains(c.Claims, p.Claim) {
			continue // another container uses it
		}
		if c.Unit && p.Unit == c.Name || !c.Unit && p.PodUID == c.PodUID && (p.Container == "" || p.Container == c.Name) {
			s.Problems = append(s.Problems, inspect.ProblemOf(p))
		}
	}
	v := verdict.Of(c, s.Problems, d.Pod)
	s.Sentence, s.Fix = v.Sentence, v.Fix
	return s
}

// alternatives adds the other places of a container, and the changes that lead there.
func (d *Decision) alternatives(s *inspect.Subject, tried bool) {
	t, at := d.Traces[s.Container.ID], placement(d.Plan, s.Container.ID)
	if at == nil || t == nil {
		return
	}
	own := cpuset.Set{}
	if at.Exclusive {
		own = at.CPUs
	}
	var hinted cpuset.Set
	for i := range d.Input.Pods {
		for _, c := range d.Input.Pods[i].Containers {
			if c.ID == at.ID {
				hinted = c.Nodes
			}
		}
	}
	s.Candidates = candidates(d.Input, d.Plan, t.Want, t.Options, hinted, own)
	if tried {
		s.Changes = changes(d.Input, s.Container.PodUID, at)
	}
}

func statement(r pools.Rule) string {
	return cmp.Or(map[pools.Rule]string{
		pools.RuleUnit:         "the configuration names the unit",
		pools.RuleUnread:       "the pod could not be read",
		pools.RuleOtherManager: "another manager of CPUs places it",
		pools.RuleClaim:        "it uses a ResourceClaim of which it gets CPUs",
		pools.RuleWorkloadType: "the pod asks for a workload type and may have it",
		pools.RulePause:        "it is a pause container",
		pools.RuleQoS:          "the pod is not Guaranteed",
		pools.RulePodPool:      "its pod has pod-level resources, and it has no whole CPUs",
		pools.RuleNotWhole:     "it does not request a whole number of CPUs",
		pools.RuleNoneToGive:   "this node allocates no exclusive CPUs",
	}[r], "whole CPUs in a Guaranteed pod")
}

// rulesOf returns the rules that were tried for a container, in order. The answer of the rule that
// was met is the reason of the placement.
func rulesOf(t *pools.Trace, reason string) []inspect.Rule {
	rules := []inspect.Rule{}
	if t == nil {
		return rules
	}
	for _, s := range t.Steps {
		answer := s.Answer
		if s.Met {
			answer = reason
		}
		rules = append(rules, inspect.Rule{Name: string(s.Rule), Statement: statement(s.Rule), Met: s.Met, Answer: answer})
	}
	return rules
}

const maxCandidates = 64

type part struct {
	name string
	node int // NUMA node of the part
	cpus cpuset.Set
}

// parts returns the NUMA nodes of the machine. With a single NUMA node, it returns the last-level
// caches or the dies of the node. It returns nothing if there is only one of each.
func parts(t *topology.Topology) (all []part) {
	if len(t.Nodes) > 1 {
		for _, n := range t.Nodes {
			all = append(all, part{fmt.Sprintf("NUMA node %d", n.ID), n.ID, n.CPUs})
		}
		return all
	}
	groups, kind := t.L3s, "last-level cache"
	if len(groups) < 2 {
		groups, kind = t.Dies, "die"
	}
	if len(groups) < 2 || len(t.Nodes) == 0 {
		return nil
	}
	for _, g := range groups {
		all = append(all, part{fmt.Sprintf("%s of CPUs %s", kind, g.CPUs), t.Nodes[0].ID, g.CPUs})
	}
	return all
}

// candidates returns, for each part of the machine with guaranteed CPUs, the CPUs that the
// allocator would choose there. The request is for want CPUs with options; own holds the current
// CPUs of the owner. Without parts there are no candidates: the placement answers for the
// machine.
func candidates(in *pools.Input, plan *pools.Plan, want int, options *allocate.Options, hinted, own cpuset.Set) []inspect.Candidate {
	if want <= 0 || options == nil {
		return nil
	}
	var all []inspect.Candidate
	for _, p := range parts(in.Machine.Topology()) {
		c := inspect.Candidate{Part: p.name, Node: p.node, CPUs: p.cpus.Intersection(in.Pools.Guaranteed), Has: p.cpus.Overlaps(own)}
		if c.CPUs.IsEmpty() || len(all) == maxCandidates {
			continue
		}
		c.Free = p.cpus.Intersection(plan.Free.Union(own))
		cpus, err := in.Machine.Supply(c.Free).Take(allocate.Request{CPUs: want, Nodes: hinted, Options: *options})
		c.Would = cpus
		refusal, refused := errors.AsType[*allocate.Refusal](err)
		switch {
		case refused:
			c.Why = "rejected: " + refusal.Why
		case own.IsEmpty():
			c.Why = fmt.Sprintf("has free capacity for %d; see the reason of the refusal", want)
		case c.Has:
			c.Why = "it has CPUs here, and keeps them"
		default:
			c.Why = "has free capacity; a running container keeps its CPUs"
		}
		all = append(all, c)
	}
	return all
}
