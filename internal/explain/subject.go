package explain

import (
	"cmp"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
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
	reason := pools.Reason{Code: pools.Code(c.Code), Text: c.Reason}
	if c.Unit {
		s.Rules = []inspect.Rule{{Name: string(pools.RuleUnit), Statement: statement(pools.RuleUnit), Met: true, Answer: reason.Text}}
	} else {
		s.Rules = rulesOf(d.Traces[c.ID], reason)
		d.alternatives(&s, changes)
	}
	for _, p := range d.Problems {
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
func rulesOf(t *pools.Trace, reason pools.Reason) []inspect.Rule {
	rules := []inspect.Rule{}
	if t == nil {
		return rules
	}
	for _, s := range t.Steps {
		answer := s.Answer
		if s.Met {
			answer = reason.Text
		}
		rules = append(rules, inspect.Rule{Name: string(s.Rule), Statement: statement(s.Rule), Met: s.Met, Answer: answer})
	}
	return rules
}
