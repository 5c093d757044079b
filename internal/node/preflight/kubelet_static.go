package preflight

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// What is different with guaranteed.exclusive: kubelet.

// kubeletMustBeStatic: with any other policy nobody would give containers CPUs of
// their own. told are what the state file and the configuration say.
func kubeletMustBeStatic(e *evidence, file string, told []setting) []Finding {
	key := e.file + ": guaranteed.exclusive"
	var findings []Finding
	known := false
	for _, s := range told {
		if s.value == "" {
			continue
		}
		known = true
		if s.value == static {
			continue
		}
		findings = append(findings, Finding{
			Severity: Refuse,
			Subject:  s.source,
			Found:    fmt.Sprintf("%s is %s, but %s is kubelet: nobody would give containers CPUs of their own", s.key, s.value, key),
			Remedy: fmt.Sprintf("drain the node, stop the kubelet, set cpuManagerPolicy: static and reservedSystemCPUs, remove %s, start the kubelet; "+
				"or let cpupoold give them: remove the key", file),
		})
	}
	switch {
	case known:
	case e.has(kubeletConfigured):
		findings = append(findings, Finding{
			Severity: Refuse,
			Subject:  "kubelet",
			Found:    fmt.Sprintf("cpuManagerPolicy is not set, which is none, but %s is kubelet: nobody would give containers CPUs of their own", key),
			Remedy:   "set cpuManagerPolicy: static and reservedSystemCPUs; or let cpupoold give them: remove the key",
		})
	default:
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  key,
			Found:    fmt.Sprintf("is kubelet, but neither a kubelet nor %s is there: it is not known whether it will be static", file),
			Remedy:   "start the kubelet, or set kubeletStateDir to where it keeps its state",
		})
	}
	return findings
}

// kubeletMustReserve: the kubelet gives every CPU away that it does not reserve.
func kubeletMustReserve(e *evidence, management cpuset.Set) []Finding {
	f := Finding{Severity: Refuse, Subject: e.kubelet.reserved.source}
	f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q, or give the management pools CPUs that it has", management)
	reserved, err := cpuset.Parse(e.kubelet.reserved.value)
	switch {
	case e.kubelet.reserved.value == "":
		f.Subject = "kubelet"
		f.Found = fmt.Sprintf("reservedSystemCPUs is not set: with the policy static the kubelet may give CPUs %s of the management pools to one container alone", management)
		f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q", management)
	case err != nil:
		f.Found = fmt.Sprintf("%s is not a CPU list: %v", e.kubelet.reserved.key, err)
	case !management.IsSubsetOf(reserved):
		f.Found = fmt.Sprintf("%s is %s, but the management pools have CPUs %s: with the policy static the kubelet may give %s to one container alone",
			e.kubelet.reserved.key, reserved, management, management.Difference(reserved))
	case !e.kubelet.strict:
		return []Finding{{
			Severity: Warning,
			Subject:  e.kubelet.reserved.source,
			Found:    fmt.Sprintf("%s is %s, but strict-cpu-reservation is not set: ordinary pods run there too, on the CPUs of the management pools", e.kubelet.reserved.key, reserved),
			Remedy:   `set cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}`,
		}}
	default:
		return nil
	}
	return []Finding{f}
}

// kubeletNeedsNRI: the kubelet writes the CPUs of management pods too, whenever it
// gives CPUs away or takes them back. Only in its own calls can that be made another
// value.
func kubeletNeedsNRI(e *evidence) []Finding {
	if !e.config.PlacesPods() {
		return nil
	}
	f := Finding{
		Severity: Refuse,
		Subject:  e.file + ": nriSocket",
		Remedy: "switch NRI on in the runtime (it is in containerd 2.0 and CRI-O 1.30 and later, unless their configuration says otherwise) and set the key to its socket; " +
			"for host slices alone remove partitions[].namespaces and write staticPods: ignore",
	}
	const without = "beside guaranteed.exclusive: kubelet pods are kept in management pools by NRI alone: the kubelet writes the CPUs of all containers"
	socket := e.config.NRISocket
	if socket == "" {
		f.Found = "is none: " + without
		return []Finding{f}
	}
	_, err := fs.Stat(e.root, relative(socket))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		f.Found = fmt.Sprintf("%s does not exist: %s", socket, without)
	default:
		f.Found = fmt.Sprintf("%s cannot be used (%s): %s", socket, cause(err), without)
	}
	return []Finding{f}
}
