package pools

import (
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// # Explanations
//
// An explanation is the decision made again, with a notebook: [Explain] runs the code of
// [Build] and records the results of the rules. [Build] passes no notebook, and
// spares the computation of values that only a record needs.

// Rule is the stable name of a statement about a container that decides where it
// belongs when it is true. They are tried in the order in which they stand here.
type Rule string

// The rules. Of units there is RuleUnit alone.
const (
	RuleUnit         Rule = "Unit"         // configuration names the unit.
	RuleUnread       Rule = "Unread"       // status of the pod could not be read
	RuleOtherManager Rule = "OtherManager" // another manager of CPUs places the container
	RuleClaim        Rule = "Claim"        // container uses ResourceClaims. Traces contain this rule only if it is met
	RuleWorkloadType Rule = "WorkloadType" // pod asks for a workload type, and may have it
	RulePause        Rule = "Pause"        // container is a pause container.
	RuleQoS          Rule = "QoS"          // pod is of a QoS class other than Guaranteed, or of none
	// RulePodPool: it shares the CPUs of its pod, which has pod-level resources. Traces contain
	// this rule only if it is met.
	RulePodPool    Rule = "PodPool"
	RuleNotWhole   Rule = "NotWhole"   // request is no whole number of CPUs, or unknown.
	RuleNoneToGive Rule = "NoneToGive" // node gives no CPUs away
	RuleExclusive  Rule = "Exclusive"  // request is for whole CPUs in a Guaranteed pod, whether granted or refused.
)

// Step is a rule that has been tried.
type Step struct {
	Rule Rule
	Met  bool // it has decided
	// Answer is the reason; it may be empty if the rule is the whole reason.
	Answer string
}

// Trace is how it was found out where a container belongs.
type Trace struct {
	Steps []Step // steps of the container, in order; the last one is met
	// Want is the number of exclusive CPUs that the container requests, and Options are how they
	// are chosen; 0 and nil without a request.
	Want    int
	Options *allocate.Options
}

// notebook is for notes on the containers of a pod; a nil one takes none.
type notebook struct {
	uid    string
	traces map[string]*Trace // by container ID
}

// Explain is [Build], with a trace for each container of a pod, by container ID.
// The plan equals the plan of Build.
func Explain(in Input, podUID string) (Plan, map[string]*Trace) {
	n := &notebook{uid: podUID, traces: make(map[string]*Trace)}
	return decide(in, n), n.traces
}

// class records how a pod's containers got their verdicts. asked are the problems of the
// request for a workload type; unasked reports that the request was not evaluated.
func (n *notebook) class(names workload.Names, p *Pod, to *class, managed, unasked bool, asked []Problem) {
	if n == nil || n.uid != p.UID {
		return
	}
	clear(n.traces) // a plan may take several attempts
	for i := range p.Containers {
		v, ctr := &to.verdicts[i], &p.Containers[i]
		t := &Trace{Want: v.want, Options: to.options}
		if v.podPool {
			t.Want = to.level.total
		}
		n.traces[ctr.ID] = t
		if t.is(RuleUnread, p.Unread, v.reason.Text) || t.is(RuleOtherManager, ctr.Foreign != nil, v.reason.Text) {
			continue
		}
		if !unasked && t.workloadType(names, p, v, managed, asked) {
			continue
		}
		t.ordinary(p, ctr, v)
	}
}

func (n *notebook) claim(p *Pod, ctr *Container, v *verdict) {
	if n != nil && n.uid == p.UID {
		t := &Trace{}
		t.is(RuleClaim, true, v.reason.Text)
		n.traces[ctr.ID] = t
	}
}

// is records a rule, and reports whether it is met; answer belongs to a met rule.
func (t *Trace) is(r Rule, met bool, answer string) bool {
	if !met {
		answer = ""
	}
	t.Steps = append(t.Steps, Step{r, met, answer})
	return met
}

func (t *Trace) workloadType(names workload.Names, p *Pod, v *verdict, managed bool, asked []Problem) bool {
	if t.is(RuleWorkloadType, managed && v.pool == Management, v.reason.Text) {
		return true
	}
	last := &t.Steps[len(t.Steps)-1]
	switch {
	case len(asked) > 0:
		last.Answer = asked[len(asked)-1].Text
	case len(p.Annotations) == 0:
		last.Answer = "the pod has no annotations"
	default:
		last.Answer = "no annotation " + names.TargetKey("<type>")
	}
	return false
}

func ruleOf(c Code) Rule {
	switch c {
	case CodePause:
		return RulePause
	case CodeBestEffort, CodeBurstable, CodeNoQoS:
		return RuleQoS
	case CodePodPool:
		return RulePodPool
	case CodeNoGuaranteedPool:
		return RuleNoneToGive
	case CodeExclusive:
		return RuleExclusive
	}
	return RuleNotWhole
}

// ordinary notes the rules for containers of pods of no workload type, up to the one of
// the verdict.
func (t *Trace) ordinary(p *Pod, ctr *Container, v *verdict) {
	met := ruleOf(v.reason.Code)
	for _, r := range [...]Rule{RulePause, RuleQoS, RulePodPool, RuleNotWhole, RuleNoneToGive, RuleExclusive} {
		if r == RulePodPool && r != met {
			continue // few pods have pod-level resources
		}
		if t.is(r, r == met, v.reason.Text) {
			return
		}
		last := &t.Steps[len(t.Steps)-1]
		switch r {
		case RuleQoS:
			last.Answer = "the pod is " + string(p.QoS)
		case RuleNotWhole:
			if n, known := ctr.Resources.WholeCPUs(); known {
				last.Answer = count(n, "whole CPU")
			}
		}
	}
}
