package desired

import (
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const codePower pools.Code = "PowerNotGiven"

// PowerSettings returns the power settings that containers request for their exclusive CPUs, and
// the requests that cannot be fulfilled. It skips requests that CRI-O's hooks fulfil.
func (s *Settings) PowerSettings(owners []Owner, m *inventory.Objects, o *OtherManagers, machine power.Machine) (map[tune.Knob]string, []pools.Problem) {
	if len(s.Config.Power) == 0 {
		return nil, nil // the annotations belong to CRI-O alone
	}
	var asking []power.Owner
	var problems []pools.Problem
	of := make(map[string]pools.Problem) // by name of the owner
	for _, owner := range owners {
		e := m.Container(owner.ID)
		if owner.Unit || e == nil || e.Pod() == nil {
			continue
		}
		pod := e.Pod()
		problem := pools.Problem{PodUID: pod.UID, Pod: pod.Name(), Container: owner.Name}
		ask, errs := power.Parse(o.leavePower(pod, e, s.Names.Power(pod.Pod.Annotations, owner.Name)), s.Config.Power)
		for _, err := range errs {
			problem.Reason = pools.Reason{Code: codePower, Text: err.Error()}
			problems = append(problems, problem)
		}
		if !ask.Empty() {
			name := pod.Name() + "/" + owner.Name + "/" + owner.ID
			of[name] = problem
			asking = append(asking, power.Owner{Name: name, CPUs: owner.CPUs, Ask: ask})
		}
	}
	values, missing := power.Plan(asking, machine)
	for _, p := range missing {
		problem := of[p.Owner]
		problem.Reason = pools.Reason{Code: codePower, Text: p.Text}
		problems = append(problems, problem)
	}
	return values, problems
}

// leavePower returns the requests that CRI-O's hooks do not fulfil.
func (o *OtherManagers) leavePower(pod *inventory.Pod, e *inventory.Container, asked workload.PowerAsked) workload.PowerAsked {
	for _, v := range []*workload.PowerValue{&asked.CStates, &asked.Governor} {
		if strings.Contains(v.Key, ".crio.io") {
			if _, does := o.crio.Powers(ofCRIO(pod, e, true), v.Key); does {
				*v = workload.PowerValue{}
			}
		}
	}
	return asked
}
