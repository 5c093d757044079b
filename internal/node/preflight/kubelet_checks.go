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
func checkKubeletPolicy(e *evidence) []Finding {
	var policies []setting
	states := e.managerStates()
	for _, s := range states {
		policies = append(policies, setting{s.policy, s.file, "policyName"}) // without a policy, checkKubeletState reports the error
	}
	policies = append(policies, e.kubelet.policy)
	file := states[len(states)-1].file
	if e.config.Pools.Guaranteed.Kubelet {
		return checkKubeletStatic(e, file, policies)
	}
	var findings []Finding
	for _, s := range policies {
		if s.value != nodecheck.Static {
			continue
		}
		remove := file
		if path.Base(s.source) == cpuManagerState {
			remove = s.source
		}
		findings = append(findings, nodecheck.KubeletStatic(s.source, s.key, remove))
	}
	return findings
}

func checkKubeletState(e *evidence) []Finding {
	var findings []Finding
	for _, s := range e.managerStates() {
		if s.err == nil {
			continue
		}
		findings = append(findings, newFinding(Warning, s.file,
			fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(s.err)),
			"stop the kubelet, remove the file, start the kubelet"))
	}
	return findings
}

func checkKubeletConfig(e *evidence) []Finding {
	var findings []Finding
	for _, f := range e.kubelet.unreadable {
		remedy := "repair the file: the kubelet will not start with it either"
		if errors.Is(f.Err, fs.ErrPermission) {
			remedy = "give cpupoold access to the file; ProtectHome= in its unit hides /home and /root"
		}
		findings = append(findings, newFinding(Warning, f.Name,
			fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(f.Err)),
			remedy))
	}
	return findings
}
