package explain

import (
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func statement(r pools.Rule) string {
	switch r {
	case pools.RuleUnit:
		return "the configuration names the unit"
	case pools.RuleUnread:
		return "the pod could not be read"
	case pools.RuleOtherManager:
		return "another manager of CPUs places it"
	case pools.RuleWorkloadType:
		return "the pod asks for a workload type and may have it"
	case pools.RulePause:
		return "it is a pause container"
	case pools.RuleQoS:
		return "the pod is not Guaranteed"
	case pools.RulePodPool:
		return "its pod has pod-level resources, and it has no whole CPUs"
	case pools.RuleNotWhole:
		return "it does not request a whole number of CPUs"
	case pools.RuleNoneToGive:
		return "this node allocates no exclusive CPUs"
	}
	return "whole CPUs in a Guaranteed pod"
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
