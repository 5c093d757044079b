package admission

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// CheckCPU returns an error that names the first field of a pod with an impossible amount of CPU.
// A negative amount is impossible, and so are a request of more CPUs than Linux supports and a
// limit of a million CPUs. Lower limits pass: many manifests have a very high limit instead of no
// limit.
func CheckCPU(pod *corev1.Pod) error { return checkCPU(pod, cpuset.MaxCPUs, workload.MaxMilliCPU/1000) }

// checkCPU is CheckCPU with the largest request and the largest limit.
func checkCPU(pod *corev1.Pod, most, limit int64) error {
	ephemeral := make([]corev1.Container, 0, len(pod.Spec.EphemeralContainers))
	for i := range pod.Spec.EphemeralContainers {
		ephemeral = append(ephemeral, corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
	for _, list := range []struct {
		key        string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}, {"ephemeralContainers", ephemeral}} {
		for i := range list.containers {
			c := &list.containers[i]
			if err := checkAmounts(&c.Resources, most, limit); err != nil {
				return fmt.Errorf("spec.%s[%.253s].%w", list.key, cmp.Or(c.Name, strconv.Itoa(i)), err)
			}
		}
	}
	if q, found := pod.Spec.Overhead[corev1.ResourceCPU]; found {
		if err := checkAmount(q, most); err != nil {
			return fmt.Errorf("spec.overhead.cpu: %w", err)
		}
	}
	if pod.Spec.Resources != nil {
		if err := checkAmounts(pod.Spec.Resources, most, limit); err != nil {
			return fmt.Errorf("spec.%w", err)
		}
	}
	return nil
}

func checkAmounts(r *corev1.ResourceRequirements, most, limit int64) error {
	for _, list := range []struct {
		key  string
		all  corev1.ResourceList
		most int64
	}{{"requests", r.Requests, most}, {"limits", r.Limits, limit}} {
		q, found := list.all[corev1.ResourceCPU]
		if _, requests := r.Requests[corev1.ResourceCPU]; !requests {
			list.most = most // a limit alone is a request
		}
		if !found {
			continue
		}
		if err := checkAmount(q, list.most); err != nil {
			return fmt.Errorf("resources.%s.cpu: %w", list.key, err)
		}
	}
	return nil
}

// CheckRequest returns an error for an impossible request of CPU, as [CheckCPU] does for the
// requests of a pod.
func CheckRequest(cpu resource.Quantity) error { return checkAmount(cpu, cpuset.MaxCPUs) }

// CheckLimit returns an error for an impossible limit of CPU, as [CheckCPU] does for the limits of
// a pod with requests.
func CheckLimit(cpu resource.Quantity) error { return checkAmount(cpu, workload.MaxMilliCPU/1000) }

// checkAmount returns an error for a negative amount of CPU, and for one above a number of CPUs.
func checkAmount(cpu resource.Quantity, most int64) error {
	const right = "write CPUs such as 2, or thousandths such as 500m"
	switch {
	case cpu.Sign() < 0:
		return fmt.Errorf("%s is negative; %s", cpu.String(), right)
	case cpu.Cmp(*resource.NewQuantity(most, resource.DecimalSI)) > 0:
		return fmt.Errorf("%s is more than %d CPUs, and no node has so many; %s", cpu.String(), most, right)
	}
	return nil
}
