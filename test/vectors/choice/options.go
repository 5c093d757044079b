package choice

import (
	"fmt"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

// Options reads the kubelet's cpuManagerPolicyOptions. strict-cpu-reservation is
// not about the choice and changes nothing in it.
func Options(values map[string]string) (allocate.Options, error) {
	var o allocate.Options
	var strict bool
	fields := map[string]*bool{
		"full-pcpus-only":                  &o.FullPCPUsOnly,
		"distribute-cpus-across-numa":      &o.DistributeCPUsAcrossNUMA,
		"align-by-socket":                  &o.AlignBySocket,
		"distribute-cpus-across-cores":     &o.DistributeCPUsAcrossCores,
		"prefer-align-cpus-by-uncorecache": &o.PreferAlignCPUsByUncoreCache,
		"strict-cpu-reservation":           &strict,
	}
	for name, value := range values {
		field := fields[name]
		if field == nil {
			return o, fmt.Errorf("option %q is not one of the kubelet's", name)
		}
		var err error
		if *field, err = strconv.ParseBool(value); err != nil {
			return o, fmt.Errorf("option %s: %w", name, err)
		}
	}
	return o, nil
}
