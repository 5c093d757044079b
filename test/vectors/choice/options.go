package choice

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

// Options reads the kubelet's cpuManagerPolicyOptions, whose names and values ours
// share. strict-cpu-reservation concerns the shared pool and changes no choice.
func Options(values map[string]string) (allocate.Options, error) {
	var o allocate.Options
	for name, value := range values {
		if name == "strict-cpu-reservation" {
			continue
		}
		if err := o.Set(name, value); err != nil {
			return o, fmt.Errorf("option %s: %q %w", name, value, err)
		}
	}
	return o, nil
}
