package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// checkBounds returns an error for the first amount of a LimitRange or a ResourceQuota that
// Kubernetes cannot read, and for the first impossible amount of CPU, with its field.
func checkBounds(apiVersion, kind string, node *yaml.Node) error {
	if apiVersion != "v1" || kind != "LimitRange" && kind != "ResourceQuota" {
		return nil
	}
	var v map[string]any
	if err := node.Decode(&v); err != nil {
		return err
	}
	spec, _ := v["spec"].(map[string]any)
	if err := listAmounts("spec.hard", spec["hard"], checkSign); err != nil {
		return err
	}
	limits, _ := spec["limits"].([]any)
	for i, item := range limits {
		limit, _ := item.(map[string]any)
		for _, bound := range []struct {
			key   string
			check func(resource.Quantity) error
		}{
			{"default", admission.CheckLimit}, {"defaultRequest", admission.CheckRequest}, {"min", admission.CheckRequest},
			{"max", admission.CheckLimit}, {"maxLimitRequestRatio", checkSign},
		} {
			if err := listAmounts(fmt.Sprintf("spec.limits[%d].%s", i, bound.key), limit[bound.key], bound.check); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSign returns an error for a negative amount of CPU. A quota is for any number of nodes, and a
// very high one means no quota.
func checkSign(cpu resource.Quantity) error {
	if cpu.Sign() < 0 {
		return admission.CheckLimit(cpu)
	}
	return nil
}

// checkNumbers returns an error for the first number of pods of a workload that the API server
// refuses. path leads to the template of the pods.
func checkNumbers(object *yaml.Node, path []string) error {
	if len(path) == 0 {
		return nil
	}
	path = path[:len(path)-1]
	spec := at(object, path)
	for _, key := range []string{"replicas", "parallelism", "completions"} {
		value := child(spec, key)
		if value == nil {
			continue
		}
		if number, err := strconv.ParseInt(value.Value, 10, 32); err != nil || number < 0 || value.Tag != "!!int" {
			field := strings.Join(append(slices.Clip(path), key), ".")
			return fmt.Errorf("%s: %.40q is no number of pods; write 0 to 2147483647", field, value.Value)
		}
	}
	return nil
}
