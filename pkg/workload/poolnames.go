package workload

import (
	"cmp"
	"strings"
)

// coresSuffix follows the domain in the name of a workload type's resource.
const coresSuffix = "/cores"

// CoresResource is the name of the extended resource, in thousandths of a CPU, by
// which the scheduler counts the containers of a workload type.
func (n Names) CoresResource(typ string) string { return typ + "." + n.domain() + coresSuffix }

// CoresType returns the workload type whose CPUs an extended resource counts, and
// false for any other resource.
func (n Names) CoresType(resource string) (typ string, ok bool) {
	rest, ok := strings.CutSuffix(resource, coresSuffix)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutSuffix(rest, n.domain()); !ok {
		return "", false
	}
	return strings.CutSuffix(rest, ".")
}

// SharedResource is the name of the extended resource, in thousandths of a CPU, by
// which the scheduler counts the containers of the shared pool.
func (n Names) SharedResource() string { return n.poolDomain() + "/shared-cpus" }

// GuaranteedResource is the name of the extended resource, in thousandths of a
// CPU, by which the scheduler counts the containers with exclusive CPUs.
func (n Names) GuaranteedResource() string { return n.poolDomain() + "/guaranteed-cpus" }

func (n Names) poolDomain() string {
	return cmp.Or(n.PoolDomain, defaultPoolDomain)
}
