package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// static is the CPU manager policy with which the kubelet writes the cpuset of every
// container.
const static = "static"

// cpuManagerState is the name of the state file in the kubelet's directory.
const cpuManagerState = "cpu_manager_state"

func (e *evidence) cpuManagerState() (file, policy string, err error) {
	file = path.Join(e.kubelet.rootDir, cpuManagerState)
	b, err := readFile(e.root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return file, "", nil
	}
	if err != nil {
		return file, "", err
	}
	policy, err = parseCPUManagerState(b)
	return file, policy, err
}

// checkKubeletPolicy checks the state file, which holds the current policy, and the
// configuration, which applies at the next start of the kubelet. Either the kubelet or
// cpupoold must allocate exclusive CPUs, not both.
func checkKubeletPolicy(e *evidence) []Finding {
	file, policy, err := e.cpuManagerState()
	if err != nil {
		policy = "" // checkKubeletState reports the error
	}
	policies := []setting{{policy, file, "policyName"}, e.kubelet.policy}
	if e.config.Pools.Guaranteed.Kubelet {
		return checkKubeletStatic(e, file, policies)
	}
	var findings []Finding
	for _, s := range policies {
		if s.value != static {
			continue
		}
		findings = append(findings, Finding{
			Severity: Refuse,
			Subject:  s.source,
			Found:    fmt.Sprintf("%s is %s: the kubelet would overwrite the CPUs of every container that cpupoold places", s.key, s.value),
			Remedy: fmt.Sprintf("drain the node, stop the kubelet, set cpuManagerPolicy: none, remove %s, start the kubelet; "+
				"or leave exclusive CPUs to the kubelet: write guaranteed: {exclusive: kubelet}", file),
		})
	}
	return findings
}

func checkKubeletState(e *evidence) []Finding {
	file, _, err := e.cpuManagerState()
	if err == nil {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  file,
		Found:    fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(err)),
		Remedy:   "stop the kubelet, remove the file, start the kubelet",
	}}
}

func checkKubeletConfig(e *evidence) []Finding {
	var findings []Finding
	for _, f := range e.kubelet.unreadable {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  f.name,
			Found:    fmt.Sprintf("cannot be understood, so the kubelet's CPU manager policy is not certain: %s", cause(f.err)),
			Remedy:   "repair the file: the kubelet will not start with it either",
		})
	}
	return findings
}

// checkReserved compares the CPUs that the scheduler does not count with the management pools,
// which ordinary pods cannot use.
func checkReserved(e *evidence) []Finding {
	var management cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		if p.All {
			return nil // the type uses all CPUs and reserves none
		}
		management = management.Union(p.CPUs)
	}
	if management.IsEmpty() {
		return nil
	}
	if e.config.Pools.Guaranteed.Kubelet {
		return checkKubeletReserves(e, management)
	}
	f := Finding{Severity: Warning, Subject: e.kubelet.reserved.source}
	want := fmt.Sprintf("set reservedSystemCPUs: %q", management)
	reserved, err := cpuset.Parse(e.kubelet.reserved.value)
	switch {
	case e.kubelet.reserved.value == "":
		f.Subject = "kubelet"
		f.Found = fmt.Sprintf("reservedSystemCPUs is not set, but the management pools have CPUs %s: the scheduler counts these %d CPUs for ordinary pods, which cannot use them",
			management, management.Len())
		f.Remedy = want
	case err != nil:
		f.Found = fmt.Sprintf("%s is not a CPU list: %v", e.kubelet.reserved.key, err)
		f.Remedy = want
	case reserved.Equal(management):
		return nil
	default:
		f.Found = fmt.Sprintf("%s is %s, but the management pools have CPUs %s: the scheduler subtracts %d of the node's CPUs, but cpupoold %d",
			e.kubelet.reserved.key, reserved, management, reserved.Len(), management.Len())
		f.Remedy = want + ", or give the management pools the CPUs that the kubelet reserves"
	}
	return []Finding{f}
}
