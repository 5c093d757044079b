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
	// KindGovernor and KindPreference are of a policy of cpufreq; the name is its number.
	KindGovernor   tune.Kind = "governor"
	KindPreference tune.Kind = "epp"
	// KindCState is whether a CPU enters an idle state, "0", or not, "1"; the name is
	// CPU/STATE.
	KindCState tune.Kind = "cstate"
)

// Owner is who has CPUs for itself and asks something of them.
type Owner struct {
	// Name is for people: namespace/pod/container.
	Name string
	CPUs cpuset.Set
	Ask  Ask
}

// Problem is what an owner asks for and does not get.
type Problem struct{ Owner, Text string }

// Plan is what the knobs are to be. Two owners have no CPU in common, but they may have a
// policy in common, and somebody else may have the rest of it: then its frequency is
// nobody's to choose, unless all want the same. Problems are sorted, one for each owner and
// reason.
func Plan(owners []Owner, m Machine) (map[tune.Knob]string, []Problem) {
	p := planner{machine: m, values: make(map[tune.Knob]string)}
	owners = slices.SortedFunc(slices.Values(owners), func(a, b Owner) int { return strings.Compare(a.Name, b.Name) })
	for _, o := range owners {
		if o.Ask.Governor != "" {
			p.planFrequency(o, owners, KindGovernor, governors())
		}
		if o.Ask.Preference != "" {
			p.planFrequency(o, owners, KindPreference, preferences())
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

// setting is what frequency does for governors and preferences alike.
type setting struct {
	name      string
	requested func(Ask) string
	available func(Policy) []string
}

func governors() setting {
	return setting{"governor", func(a Ask) string { return a.Governor }, func(p Policy) []string { return p.Governors }}
}

func preferences() setting {
	return setting{"energy preference", func(a Ask) string { return a.Preference }, func(p Policy) []string { return p.Preferences }}
}

// planFrequency has the policies of an owner's CPUs get what it asks for.
func (p *planner) planFrequency(o Owner, owners []Owner, kind tune.Kind, what setting) {
	want, none := what.requested(o.Ask), o.CPUs
	var unknown, shared, with, held cpuset.Set
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
			continue // without any it is as without a policy
		}
		none = none.Difference(own)
		others := policy.CPUs.Difference(agree)
		switch {
		case !slices.Contains(there, want):
			unknown, names = unknown.Union(own), there
		case !others.IsEmpty():
			shared, with = shared.Union(own), with.Union(others)
		case kind == KindPreference && want != performance && p.isPreferenceFixed(policy):
			held = held.Union(own)
		default:
			p.values[tune.Knob{Kind: kind, Name: strconv.Itoa(policy.Number)}] = want
		}
	}
	if !none.IsEmpty() {
		p.addProblem(o, "%s %s: the kernel has none for CPUs %s", what.name, want, none)
	}
	if !unknown.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s have none of this name; there are %s", what.name, want, unknown, strings.Join(names, ", "))
	}
	if !held.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s are to have the governor performance, with which their driver takes no preference but performance", what.name, want, held)
	}
	if !shared.IsEmpty() {
		p.addProblem(o, "%s %s: CPUs %s have their frequency together with CPUs %s, which are others' or do not ask for it", what.name, want, shared, with)
	}
}

// performance is the governor, and the energy preference, of who wants all of the speed.
const performance = "performance"

// isPreferenceFixed says that the governor that a policy is to have leaves no choice of an energy
// preference: the drivers answer EBUSY to all others.
func (p *planner) isPreferenceFixed(policy Policy) bool {
	return (policy.Driver == "intel_pstate" || policy.Driver == "amd-pstate-epp") &&
		p.values[tune.Knob{Kind: KindGovernor, Name: strconv.Itoa(policy.Number)}] == performance
}

// planIdleStates has an owner's CPUs enter the states only that are quick enough to leave.
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
		p.addProblem(o, "C-states: the kernel has none for CPUs %s", without)
	}
}

func (p *planner) addProblem(o Owner, format string, args ...any) {
	p.problems = append(p.problems, Problem{o.Name, fmt.Sprintf(format, args...)})
}
