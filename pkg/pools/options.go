package pools

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// overridePrefix begins the annotations by which a pod chooses options.
const overridePrefix = "cpupoold.io/"

// ReadsAnnotation reports whether the planner reads the value of a pod annotation of this
// name.
func ReadsAnnotation(names workload.Names, key string) bool {
	if key == sourceKey || key == hashKey || strings.HasPrefix(key, overridePrefix) {
		return true
	}
	name, _, _ := strings.Cut(key, "/")
	return name == quotaKey || names.Reads(key)
}

// OptionsFor returns how the CPUs of the containers of a Guaranteed pod are chosen.
func (p Pools) OptionsFor(pod *Pod) allocate.Options {
	c := classifier{in: &Input{Pools: p}}
	return *c.options(pod)
}

// options returns how the CPUs of a Guaranteed pod are chosen: as configured,
// with what its annotations override. When the result contradicts itself, none of
// them counts.
func (c *classifier) options(p *Pod) *allocate.Options {
	configured := &c.in.Pools.Options
	var names []string
	for key := range p.Annotations {
		if name, ok := strings.CutPrefix(key, overridePrefix); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return configured
	}
	slices.Sort(names) // the order must not change the text of a problem
	chosen := *configured
	for _, name := range names {
		value := p.Annotations[overridePrefix+name]
		allowed := slices.Contains(c.in.Pools.Overrides, name)
		isMode := name == podLevelOption
		if !allowed && (isMode || slices.Contains(allocate.OptionNames(), name)) {
			c.report(p, "", CodeOverrideNotAllowed, "annotation "+overridePrefix+name+
				" is for an option that pods may not choose on this node (guaranteed.overrides); the configured value counts")
			continue
		}
		if isMode {
			if !PodLevel(value).valid() {
				c.report(p, "", CodeOverrideInvalid, fmt.Sprintf("annotation %s %s: write %s or %s; the configured value counts",
					overridePrefix+name, clip(value), PodLevelPod, PodLevelContainer))
			}
			continue
		}
		if err := chosen.Set(name, value); err != nil {
			c.report(p, "", CodeOverrideInvalid, fmt.Sprintf("annotation %s %s %v; the configured value counts", clip(overridePrefix+name), clip(value), err))
		}
	}
	if err := errors.Join(chosen.Validate()...); err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		c.report(p, "", CodeOverrideInvalid, fmt.Sprintf("annotations %s*: %s; the configured options count", overridePrefix, why))
		return configured
	}
	return &chosen
}
