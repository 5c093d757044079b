// Package quota finds limits on resources that do not have the effect that their authors
// meant, because the webhook changes the requests of pods. The resources of pools count
// thousandths of a CPU.
package quota

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// leastShared is the least plausible limit of a pool without exclusive CPUs, in thousandths of a
// CPU. A lower limit was probably meant in CPUs.
const leastShared = 100

// Effect is the unintended effect of a limit.
type Effect struct {
	// Text states the effect of the limit, which is the subject of the sentence.
	Text, Remedy string
}

// OfAmount returns the effect of a limit on the resource of a pool, and false if the amount is
// plausible.
func OfAmount(names workload.Names, name string, limit resource.Quantity) (Effect, bool) {
	if limit.Sign() < 0 {
		return Effect{"admits no pod with this resource, because it is negative", "write an amount of at least 0"}, true
	}
	if limit.IsZero() || limit.CmpInt64(workload.MaxMilliCPU) > 0 {
		return Effect{}, false
	}
	milli, exclusive := limit.Value(), name == names.GuaranteedResource()
	// The author meant CPUs.
	meant := fmt.Sprintf("write %s, as much as cpu: %s", resource.NewQuantity(limit.MilliValue(), resource.DecimalSI), limit.String())
	whole := resource.NewQuantity(milli/1000*1000, resource.DecimalSI).String()
	switch {
	case exclusive && milli < 1000:
		return Effect{"admits no exclusive CPU, because the unit is a thousandth of a CPU", meant}, true
	case exclusive && milli%1000 != 0:
		return Effect{
			fmt.Sprintf("admits exclusive CPUs up to %s, because each counts 1k", whole),
			fmt.Sprintf("write %s", whole),
		}, true
	case !exclusive && milli < leastShared:
		return Effect{"admits less than a tenth of a CPU, because the unit is a thousandth of a CPU", meant}, true
	}
	return Effect{}, false
}

// OfQuota returns the effect of one limit of a ResourceQuota, and false if it has the effect that
// its author expects. Typ is a workload type of pods in the namespace, or "" without such pods.
func OfQuota(names workload.Names, typ, key string, limit resource.Quantity) (Effect, bool) {
	name, requests := strings.CutPrefix(key, "requests.")
	if !requests {
		name = strings.TrimPrefix(key, "limits.")
	}
	switch {
	case names.IsPool(name) && requests:
		return OfAmount(names, name, limit)
	case names.IsPool(name):
		return Effect{
			"counts nothing, because quotas count this resource as requests." + name + " only",
			"write requests." + name,
		}, true
	case typ == "":
		return Effect{}, false
	}
	const ownNamespace = ", or keep pods of workload types in a namespace without it"
	switch corev1.ResourceName(key) {
	case corev1.ResourceCPU, corev1.ResourceRequestsCPU:
		remedy := "remove " + key
		if limit.Sign() > 0 && limit.CmpInt64(workload.MaxMilliCPU/1000) < 0 {
			remedy = fmt.Sprintf("write requests.%s: %s instead of %s", names.CoresResource(typ), resource.NewQuantity(limit.MilliValue(), resource.DecimalSI), key)
		}
		return Effect{"refuses pods of a workload type, whose containers have no cpu", remedy + ownNamespace}, true
	case corev1.ResourceLimitsCPU:
		return Effect{"refuses pods of a workload type, whose containers have no cpu", "remove " + key + ownNamespace}, true
	}
	return Effect{}, false
}
