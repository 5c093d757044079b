package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// claimCommand carries out a command about ResourceClaims. done is false if the command is another one.
func (s *script) claimCommand(command, name string, args map[string]string) (done bool, err error) {
	switch command {
	case "prepare": // PUT /v1/claims/NAME with pod=UID device=NAME cpus=N
		n, err := strconv.Atoi(args["cpus"])
		if err != nil {
			return true, err
		}
		return true, s.changeClaim(name, &pools.Claim{UID: name, Namespace: "ran", Name: name, PodUID: args["pod"],
			Parts: []pools.ClaimPart{{Request: "cpus", Device: args["device"], CPUs: n}}})
	case "end": // DELETE /v1/claims/NAME
		return true, s.changeClaim(name, nil)
	case "nri": // the connection begins (up) or ends (down)
		state := map[string]nri.State{"up": nri.Connected, "down": nri.Lost}[name]
		s.event(nriChanged{state: state})
		return true, nil
	case "synchronize": // the runtime connects to NRI, and reports one container
		pod, container, _ := strings.Cut(name, "/")
		s.event(nriChanged{state: nri.Connected})
		s.event(synchronized{[]cri.Pod{{ID: s.ids[pod], UID: pod}},
			[]cri.Container{{ID: s.ids[name], PodID: s.ids[pod], Name: container, State: cri.Running, Claims: claimRefs(args)}},
			waits.Ask[struct{}](s.ctx.Done())})
		return true, nil
	}
	return false, nil
}

// changeClaim sends a change of a claim to the loop, and prints the answer.
func (s *script) changeClaim(uid string, claim *pools.Claim) error {
	c := &claims.Change{UID: uid, Claim: claim, Question: waits.Ask[[]inspect.ClaimPart](s.ctx.Done())}
	s.event(claimChange{c})
	s.settle()
	select {
	case r := <-c.Reply():
		for _, part := range r.Value {
			s.printf("claim %s has CPUs %s", uid, part.CPUs)
		}
		if r.Err == nil && claim == nil {
			s.printf("claim %s has ended", uid)
		}
		return r.Err
	default:
		return errors.New("no answer")
	}
}

// claimRefs returns the references of claims=UID,UID as CDI devices, and of DRA_CPUSET_UID=LIST.
func claimRefs(args map[string]string) cri.ClaimRefs {
	var devices, env []string
	for _, uid := range strings.FieldsFunc(args["claims"], func(r rune) bool { return r == ',' }) {
		devices = append(devices, fmt.Sprintf("%s=%s", cri.ClaimDevice, uid))
	}
	for name, value := range args {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return cri.ClaimRefsOf(devices, env)
}
