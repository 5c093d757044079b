package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
)

const cpuManagerState = "cpu_manager_state"

type managerState struct {
	file, policy string // policy is empty without a file
	err          error
}

func (e *evidence) managerStates() []managerState {
	states := make([]managerState, len(e.kubelet.stateDirs))
	for i, dir := range e.kubelet.stateDirs {
		s := managerState{file: path.Join(dir, cpuManagerState)}
		b, err := e.kubelet.process.ReadFile(s.file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			s.err = err
		default:
			s.policy, s.err = parseCPUManagerState(b)
		}
		states[i] = s
	}
	return states
}

// checkKubeletPolicy checks the state files (the current policy) and the configuration (the next
// one). Only one of kubelet and cpupoold may allocate exclusive CPUs.
func checkKubeletPolicy(e *evidence) {
	var policies []setting
	states := e.managerStates()
	for _, s := range states {
		policies = append(policies, setting{s.policy, s.file, "policyName"}) // without a policy, checkKubeletState reports the error
	}
	policies = append(policies, e.kubelet.policy)
	file := states[len(states)-1].file
	if e.config.Pools.Guaranteed.Kubelet {
		checkKubeletStatic(e, file, policies)
		return
	}
	for _, s := range policies {
		remove := file
		if path.Base(s.source) == cpuManagerState {
			remove = s.source
		}
		if s.value == nodecheck.Static {
			e.report(nodecheck.KubeletStatic(s.source, s.key, remove))
		}
	}
}

func checkKubeletState(e *evidence) {
	for _, s := range e.managerStates() {
		if s.err != nil {
			e.add(Warning, s.file,
				fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(s.err)),
				"stop the kubelet, remove the file, start the kubelet")
		}
	}
}

func checkKubeletConfig(e *evidence) {
	for _, f := range e.kubelet.unreadable {
		remedy := "repair the file: the kubelet will not start with it either"
		if errors.Is(f.Err, fs.ErrPermission) {
			remedy = "give cpupoold access to the file; ProtectHome= in its unit hides /home and /root"
		}
		e.add(Warning, f.Name,
			fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(f.Err)),
			remedy)
	}
}
