package preflight

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/quantity"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Checks of the CPUs that the kubelet reserves. The scheduler does not count these CPUs.

// claimsGate is the feature gate with which the scheduler counts CPUs of ResourceClaims as cpu. It is off by
// default in Kubernetes 1.36 to 1.38 (KEP-5517).
const claimsGate = "DRANodeAllocatableResources"

// Keys of the kubelet's configuration with amounts by resource.
const (
	systemReserved = "systemReserved"
	kubeReserved   = "kubeReserved"
)

// amounts returns the settings for CPUs that are reserved without a list.
func (k *kubeletFacts) amounts() []kubeletSetting {
	return []kubeletSetting{{"system-reserved", systemReserved, &k.systemCPU}, {"kube-reserved", kubeReserved, &k.kubeCPU}}
}

// cpuOf returns the amount of cpu in a flag such as cpu=500m,memory=1Gi; empty without one.
func cpuOf(flag string) string {
	for amount := range strings.SplitSeq(flag, ",") {
		if name, value, _ := strings.Cut(amount, "="); strings.TrimSpace(name) == "cpu" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// checkReserved compares the CPUs that the scheduler does not count with the management pools and the CPUs of
// ResourceClaims.
func checkReserved(e *evidence) {
	var management cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		management = management.Union(p.CPUs)
		if p.All {
			management = cpuset.Set{} // the type uses all CPUs and reserves none
			break
		}
	}
	claims := e.config.Pools.Guaranteed.Claims.CPUs
	uncounted := claims
	if e.kubelet.gates[claimsGate] {
		uncounted = cpuset.Set{}
	}
	switch {
	case e.config.Pools.Guaranteed.Kubelet && !management.IsEmpty():
		checkKubeletReserves(e, management)
		return
	case e.config.Pools.Guaranteed.Kubelet, management.IsEmpty() && uncounted.IsEmpty():
		return
	case management.IsEmpty() && e.kubelet.reserved.value == "":
		checkReservedAmounts(e, claims)
		return
	}
	var parts []string
	if !management.IsEmpty() {
		parts = append(parts, fmt.Sprintf("the management pools have CPUs %s", management))
	}
	if !uncounted.IsEmpty() {
		parts = append(parts, fmt.Sprintf("ResourceClaims have CPUs %s", claims))
	}
	k, want, holders := e.kubelet.reserved, management.Union(uncounted), strings.Join(parts, " and ")
	f := Finding{Severity: Warning, Subject: k.source, Remedy: fmt.Sprintf("set reservedSystemCPUs: %q", want)}
	reserved, err := cpuset.Parse(k.value)
	switch {
	case k.value == "":
		f.Subject = "kubelet"
		f.Found = fmt.Sprintf("reservedSystemCPUs is not set, but %s: the scheduler counts these %d CPUs for ordinary pods, which cannot use them", holders, want.Len())
	case err != nil:
		f.Found = fmt.Sprintf("%s is not a CPU list: %v", k.key, err)
	case reserved.Equal(want), reserved.Equal(management.Union(claims)): // the API server's gate is not known here
		return
	case management.IsEmpty() && reserved.Len() >= claims.Len(): // without a list of a management pool, only the number is relevant
		return
	default:
		f.Found = fmt.Sprintf("%s is %s, but %s: the scheduler subtracts %d of the node's CPUs, but cpupoold %d", k.key, reserved, holders, reserved.Len(), want.Len())
		if f.Remedy += ", or give the management pools the CPUs that the kubelet reserves"; management.IsEmpty() {
			f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q", reserved.Union(claims))
		}
	}
	e.report(f)
}

// checkReservedAmounts reports CPUs of claims that the scheduler also counts for other pods, if neither a
// management pool nor the kubelet has a list.
func checkReservedAmounts(e *evidence, claims cpuset.Set) {
	subject := "kubelet"
	var milli [2]int64
	for i, s := range e.kubelet.amounts() {
		if s.to.value == "" {
			continue
		}
		subject = s.to.source
		var err error
		if milli[i], err = quantity.Milli(s.to.value); err != nil {
			e.add(Warning, subject, fmt.Sprintf("%s is not an amount of CPUs: %v", s.to.key, err), "write one such as 500m or 2")
			return
		}
	}
	if more := int64(claims.Len()) * 1000; milli[0]+milli[1] < more {
		e.add(Warning, subject,
			fmt.Sprintf("systemReserved.cpu is %s and kubeReserved.cpu is %s, but ResourceClaims have CPUs %s: the scheduler counts these %d CPUs for other pods, too",
				amount(milli[0]), amount(milli[1]), claims, claims.Len()),
			fmt.Sprintf("raise systemReserved.cpu by %d to %s", claims.Len(), amount(milli[0]+more)))
	}
}

// amount formats thousandths of a CPU as the kubelet's configuration has them.
func amount(milli int64) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}
