package preflight

import (
	"fmt"
	"strconv"
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
func checkReserved(e *evidence) []Finding {
	var management cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		management = management.Union(p.CPUs)
		if p.All {
			management = cpuset.Set{} // the type uses all CPUs and reserves none
			break
		}
	}
	claims, counted := e.config.Pools.Guaranteed.Claims.CPUs, e.kubelet.gates[claimsGate]
	switch {
	case e.config.Pools.Guaranteed.Kubelet && management.IsEmpty():
		return nil
	case e.config.Pools.Guaranteed.Kubelet:
		return checkKubeletReserves(e, management)
	case management.IsEmpty() && (claims.IsEmpty() || counted):
		return nil
	case management.IsEmpty():
		return checkReservedForClaims(e, claims)
	}
	want, owners := management, fmt.Sprintf("the management pools have CPUs %s", management)
	if !claims.IsEmpty() && !counted {
		want, owners = want.Union(claims), fmt.Sprintf("%s and ResourceClaims have CPUs %s", owners, claims)
	}
	f := Finding{Severity: Warning, Subject: e.kubelet.reserved.source, Remedy: fmt.Sprintf("set reservedSystemCPUs: %q", want)}
	reserved, err := cpuset.Parse(e.kubelet.reserved.value)
	switch {
	case e.kubelet.reserved.value == "":
		f.Subject = "kubelet"
		f.Found = fmt.Sprintf("reservedSystemCPUs is not set, but %s: the scheduler counts these %d CPUs for ordinary pods, which cannot use them",
			owners, want.Len())
	case err != nil:
		f.Found = fmt.Sprintf("%s is not a CPU list: %v", e.kubelet.reserved.key, err)
	case reserved.Equal(want) || reserved.Equal(management.Union(claims)): // the API server's gate is not known here
		return nil
	default:
		f.Found = fmt.Sprintf("%s is %s, but %s: the scheduler subtracts %d of the node's CPUs, but cpupoold %d",
			e.kubelet.reserved.key, reserved, owners, reserved.Len(), want.Len())
		f.Remedy += ", or give the management pools the CPUs that the kubelet reserves"
	}
	return []Finding{f}
}

// checkReservedForClaims reports CPUs of claims that the scheduler also counts for other pods, if no management
// pool has a list. Then only the number of reserved CPUs is relevant.
func checkReservedForClaims(e *evidence, claims cpuset.Set) []Finding {
	k := &e.kubelet
	f := Finding{Severity: Warning, Subject: k.reserved.source}
	if k.reserved.value != "" {
		reserved, err := cpuset.Parse(k.reserved.value)
		switch {
		case err != nil:
			f.Found = fmt.Sprintf("%s is not a CPU list: %v", k.reserved.key, err)
		case reserved.Len() >= claims.Len():
			return nil
		default:
			f.Found = fmt.Sprintf("%s is %s, but ResourceClaims have CPUs %s: the scheduler subtracts %d of the node's CPUs, but cpupoold %d",
				k.reserved.key, reserved, claims, reserved.Len(), claims.Len())
		}
		f.Remedy = fmt.Sprintf("set reservedSystemCPUs: %q", reserved.Union(claims))
		return []Finding{f}
	}
	var milli [2]int64
	f.Subject = "kubelet"
	for i, s := range k.amounts() {
		if s.to.value == "" {
			continue
		}
		var err error
		if milli[i], err = quantity.Milli(s.to.value); err != nil {
			f.Subject, f.Found, f.Remedy = s.to.source, fmt.Sprintf("%s is not an amount of CPUs: %v", s.to.key, err), "write one such as 500m or 2"
			return []Finding{f}
		}
		f.Subject = s.to.source
	}
	more := int64(claims.Len()) * 1000
	if milli[0]+milli[1] >= more {
		return nil
	}
	f.Found = fmt.Sprintf("systemReserved.cpu is %s and kubeReserved.cpu is %s, but ResourceClaims have CPUs %s: the scheduler counts these %d CPUs for other pods, too",
		amount(milli[0]), amount(milli[1]), claims, claims.Len())
	f.Remedy = fmt.Sprintf("raise systemReserved.cpu by %d to %s", claims.Len(), amount(milli[0]+more))
	return []Finding{f}
}

// amount formats thousandths of a CPU as the kubelet's configuration has them.
func amount(milli int64) string {
	if milli%1000 == 0 {
		return strconv.FormatInt(milli/1000, 10)
	}
	return strconv.FormatInt(milli, 10) + "m"
}
