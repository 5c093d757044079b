package preflight

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Checks for guaranteed.exclusive: kubelet.

// checkKubeletStatic reports a policy other than static in the state file or configuration: no
// program would allocate exclusive CPUs.
func checkKubeletStatic(e *evidence, file string, policies []setting) {
	key := e.file + ": guaranteed.exclusive"
	known := false
	for _, s := range policies {
		if s.value == "" {
			continue
		}
		if known = true; s.value != nodecheck.Static {
			e.add(Refuse, s.source,
				fmt.Sprintf("%s is %s, but %s is kubelet: no program would allocate exclusive CPUs", s.key, s.value, key),
				fmt.Sprintf("drain the node, stop the kubelet, set cpuManagerPolicy: static and reservedSystemCPUs, remove %s, start the kubelet; "+
					"or let cpupoold allocate them: remove the key", file))
		}
	}
	switch {
	case known:
	case kubeletConfigured(e):
		e.add(Refuse, "kubelet",
			fmt.Sprintf("cpuManagerPolicy is not set (default none), but %s is kubelet: no program would allocate exclusive CPUs", key),
			"set cpuManagerPolicy: static and reservedSystemCPUs; or let cpupoold allocate them: remove the key")
	default:
		e.add(Warning, key,
			fmt.Sprintf("is kubelet, but no kubelet runs and %s does not exist: the policy is unknown", file),
			"start the kubelet, or set kubeletStateDir to the directory of its state")
	}
}

// checkKubeletReserves reports management CPUs that the kubelet may allocate to containers.
func checkKubeletReserves(e *evidence, management cpuset.Set) {
	k, remedy := e.kubelet.reserved, fmt.Sprintf("set reservedSystemCPUs: %q, or give the management pools CPUs of that list", management)
	reserved, err := cpuset.Parse(k.value)
	switch {
	case k.value == "":
		e.add(Refuse, "kubelet",
			fmt.Sprintf("reservedSystemCPUs is not set: with the policy static the kubelet may allocate CPUs %s of the management pools to one container", management),
			fmt.Sprintf("set reservedSystemCPUs: %q", management))
	case err != nil:
		e.add(Refuse, k.source, fmt.Sprintf("%s is not a CPU list: %v", k.key, err), remedy)
	case !management.IsSubsetOf(reserved):
		e.add(Refuse, k.source,
			fmt.Sprintf("%s is %s, but the management pools have CPUs %s: with the policy static the kubelet may allocate CPUs %s to one container",
				k.key, reserved, management, management.Difference(reserved)), remedy)
	case !e.kubelet.strict:
		e.add(Warning, k.source,
			fmt.Sprintf("%s is %s, but strict-cpu-reservation is not set: ordinary pods run there too, on the CPUs of the management pools", k.key, reserved),
			`set cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}`)
	}
}

// checkKubeletNRI reports a missing NRI socket. Only an NRI plugin can replace the CPUs that the
// kubelet writes to all containers.
func checkKubeletNRI(e *evidence) {
	fault := "is none"
	if socket := e.config.NRISocket; socket != "" {
		fault = e.socketFault(socket)
	}
	if e.config.PlacesPods() && fault != "" {
		e.add(Refuse, e.file+": nriSocket",
			fault+": with guaranteed.exclusive: kubelet, only NRI keeps pods in management pools, because the kubelet writes the CPUs of all containers",
			nodecheck.EnableNRI+" and set the key to its socket; for host slices only, remove partitions[].namespaces and write staticPods: ignore")
	}
}
