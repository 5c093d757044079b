package power

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// The kinds of knobs.
const (
	// KindGovernor and KindPreference are settings of the cpufreq policy in the name.
	KindGovernor   tune.Kind = "governor"
	KindPreference tune.Kind = "epp"
	// KindCState is the idle state CPU/STATE: "0" is enabled, "1" is disabled.
	KindCState tune.Kind = "cstate"
)

// Owner is a container with exclusive CPUs that requests power settings.
type Owner struct {
	// Name identifies the owner in problems. It is unique.
	Name string
	CPUs cpuset.Set
	Ask  Ask
}

// Problem is a request of an owner that cannot be fulfilled.
type Problem struct{ Owner, Text string }

// Plan returns the desired values of knobs, and the problems: sorted, one for each owner and
// reason. Owners have disjoint CPUs. The CPUs of a policy may have several owners, or none.
// Plan sets the frequency of a policy only if the owners of all its CPUs request the same.
func Plan(owners []Owner, m Machine) (map[tune.Knob]string, []Problem) {
	p := planner{machine: m, values: make(map[tune.Knob]string)}
	owners = slices.SortedFunc(slices.Values(owners), func(a, b Owner) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range owners {
		if o.Ask.Governor != "" {
			p.planFrequency(o, owners, KindGovernor, setting{"governor", func(a Ask) string { return a.Governor }, func(p Policy) []string { return p.Governors }})
		}
		if o.Ask.Preference != "" {
			p.planFrequency(o, owners, KindPreference, setting{"energy preference", func(a Ask) string { return a.Preference }, func(p Policy) []string { return p.Preferences }})
		}
		if o.Ask.Limited {
			p.planIdleStates(o)
		}
	}
	slices.SortFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Text, b.Text))
	})
	return p.values, p.problems
}

type planner struct {
	machine  Machine
	values   map[tune.Knob]string
	problems []Problem
}

type setting struct {
	name      string
	requested func(Ask) string
	available func(Policy) []string
}

func (p *planner) planFrequency(o Owner, owners []Owner, kind tune.Kind, what setting) {
	want, none := what.requested(o.Ask), o.CPUs
	var unknown, shared, with, fixed cpuset.Set
	var names []string
	agree := cpuset.Set{}
	for _, other := range owners {
		if what.requested(other.Ask) == want {
			agree = agree.Union(other.CPUs)
		}
	}
	for _, policy := range p.machine.Policies {
		there, own := what.available(policy), policy.CPUs.Intersection(o.CPUs)
		if own.IsEmpty() || len(there) == 0 {
			continue // a policy without available values counts as no policy
		}
		none = none.Difference(own)
		others := policy.CPUs.Difference(agree)
		switch {
		case !slices.Contains(there, want):
			unknown, names = unknown.Union(own), there
		case !others.IsEmpty():
			shared, with = shared.Union(own), with.Union(others)
		case kind == KindPreference && want != performance && p.isPreferenceFixed(policy):
			fixed = fixed.Union(own)
		default:
			p.values[tune.Knob{Kind: kind, Name: strconv.Itoa(policy.Number)}] = want
		}
	}
	if !none.IsEmpty() {
		p.addProblem(o, "%s %s: the kernel has no %s for CPUs %s", what.name, want, what.name, none)
	}
	if !unknown.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s do not support it; write one of %s", what.name, want, unknown, strings.Join(names, ", "))
	}
	if !fixed.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s get the governor performance, with which the driver accepts only the preference performance", what.name, want, fixed)
	}
	if !shared.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s share their frequency with CPUs %s; owners of all these CPUs must request it", what.name, want, shared, with)
	}
}

// performance is the governor, and the energy preference, for the highest speed.
const performance = "performance"

// isPreferenceFixed reports whether the drivers refuse other energy preferences (EBUSY).
func (p *planner) isPreferenceFixed(policy Policy) bool {
	return (policy.Driver == "intel_pstate" || policy.Driver == "amd-pstate-epp") &&
		p.values[tune.Knob{Kind: KindGovernor, Name: strconv.Itoa(policy.Number)}] == performance
}

// planIdleStates disables the idle states with a longer latency than an owner requests.
func (p *planner) planIdleStates(o Owner) {
	without := cpuset.Set{}
	for cpu := range o.CPUs.All() {
		states := p.machine.Idle[cpu]
		if len(states) == 0 {
			without = without.Union(cpuset.Of(cpu))
		}
		for _, s := range states {
			value := "0"
			if s.Latency > o.Ask.Latency {
				value = "1"
			}
			p.values[tune.Knob{Kind: KindCState, Name: fmt.Sprintf("%d/%d", cpu, s.Number)}] = value
		}
	}
	if !without.IsEmpty() {
		p.addProblem(o, "C-states: the kernel has no idle states for CPUs %s", without)
	}
}

func (p *planner) addProblem(o Owner, format string, args ...any) {
	p.problems = append(p.problems, Problem{o.Name, fmt.Sprintf(format, args...)})
}
