package preflight

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Checks for guaranteed.exclusive: kubelet.

// checkKubeletStatic reports a policy other than static in the state file or configuration: no
// program would allocate exclusive CPUs.
func checkKubeletStatic(e *evidence, file string, policies []setting) []Finding {
	key := e.file + ": guaranteed.exclusive"
	var findings []Finding
	known := false
	for _, s := range policies {
		if s.value == "" {
			continue
		}
		known = true
		if s.value == nodecheck.Static {
			continue
		}
		findings = append(findings, newFinding(Refuse, s.source,
			fmt.Sprintf("%s is %s, but %s is kubelet: no program would allocate exclusive CPUs", s.key, s.value, key),
			fmt.Sprintf("drain the node, stop the kubelet, set cpuManagerPolicy: static and reservedSystemCPUs, remove %s, start the kubelet; "+
				"or let cpupoold allocate them: remove the key", file)))
	}
	switch {
	case known:
	case kubeletConfigured(e):
		findings = append(findings, newFinding(Refuse, "kubelet",
			fmt.Sprintf("cpuManagerPolicy is not set (default none), but %s is kubelet: no program would allocate exclusive CPUs", key),
			"set cpuManagerPolicy: static and reservedSystemCPUs; or let cpupoold allocate them: remove the key"))
	default:
		findings = append(findings, newFinding(Warning, key,
			fmt.Sprintf("is kubelet, but no kubelet runs and %s does not exist: the policy is unknown", file),
			"start the kubelet, or set kubeletStateDir to the directory of its state"))
	}
	return findings
}

// checkKubeletReserves reports management CPUs that the kubelet may allocate to containers.
func checkKubeletReserves(e *evidence, management cpuset.Set) []Finding {
	f := Finding{Severity: Refuse, Subject: e.kubelet.reserved.source}
	f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q, or give the management pools CPUs of that list", management)
	reserved, err := cpuset.Parse(e.kubelet.reserved.value)
	switch {
	case e.kubelet.reserved.value == "":
		f.Subject = "kubelet"
		f.Found = fmt.Sprintf("reservedSystemCPUs is not set: with the policy static the kubelet may allocate CPUs %s of the management pools to one container", management)
		f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q", management)
	case err != nil:
		f.Found = fmt.Sprintf("%s is not a CPU list: %v", e.kubelet.reserved.key, err)
	case !management.IsSubsetOf(reserved):
		f.Found = fmt.Sprintf("%s is %s, but the management pools have CPUs %s: with the policy static the kubelet may allocate CPUs %s to one container",
			e.kubelet.reserved.key, reserved, management, management.Difference(reserved))
	case !e.kubelet.strict:
		return []Finding{newFinding(Warning, e.kubelet.reserved.source,
			fmt.Sprintf("%s is %s, but strict-cpu-reservation is not set: ordinary pods run there too, on the CPUs of the management pools", e.kubelet.reserved.key, reserved),
			`set cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}`)}
	default:
		return nil
	}
	return []Finding{f}
}

// checkKubeletNRI reports a missing NRI socket. Only an NRI plugin can replace the CPUs that the
// kubelet writes to all containers.
func checkKubeletNRI(e *evidence) []Finding {
	if !e.config.PlacesPods() {
		return nil
	}
	f := Finding{
		Severity: Refuse,
		Subject:  e.file + ": nriSocket",
		Remedy: nodecheck.EnableNRI + " and set the key to its socket; " +
			"for host slices only, remove partitions[].namespaces and write staticPods: ignore",
	}
	const without = "with guaranteed.exclusive: kubelet, only NRI keeps pods in management pools, because the kubelet writes the CPUs of all containers"
	socket := e.config.NRISocket
	if socket == "" {
		f.Found = "is none: " + without
		return []Finding{f}
	}
	fault := e.socketFault(socket)
	if fault == "" {
		return nil
	}
	f.Found = fault + ": " + without
	return []Finding{f}
}
