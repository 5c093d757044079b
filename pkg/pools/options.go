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
		isMode := name == PodLevelOption
		if !allowed && (isMode || slices.Contains(allocate.OptionNames(), name)) {
			c.report(p, "", CodeOverrideNotAllowed, "annotation "+overridePrefix+name+
				" is for an option that pods may not choose on this node (guaranteed.overrides); the configured value counts")
			continue
		}
		if isMode {
			if !PodLevel(value).Valid() {
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

// Annotations of pods for CRI-O's high-performance handler (cri-o, pkg/annotations/v2), which cpupoold
// reads, too. Each counts for all containers of the pod. With "/" and a name it counts for
// that container, and takes precedence.
const (
	quotaKey         = "cpu-quota.crio.io"
	loadBalancingKey = "cpu-load-balancing.crio.io"
)

// KeepsQuota reports whether these annotations of a pod let an exclusive container keep its CFS quota.
// Only the value "enable" does: by default, exclusive containers have no quota.
func KeepsQuota(annotations map[string]string, container string) bool {
	if len(annotations) == 0 {
		return false
	}
	value, found := annotations[quotaKey+"/"+container]
	if !found {
		value = annotations[quotaKey]
	}
	return value == "enable"
}

// checkSwitches reports the annotations of CRI-O, and the annotations about interrupts, of a Guaranteed pod
// that are malformed or request an unavailable feature.
func (c *classifier) checkSwitches(p *Pod) {
	for key, value := range p.Annotations {
		name, _, _ := strings.Cut(key, "/")
		switch {
		case c.in.Names.AsksAboutInterrupts(key):
			c.checkInterrupts(p, key, value)
		case name != quotaKey && name != loadBalancingKey:
		case value != "disable" && value != "true" && value != "enable":
			c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is neither disable nor enable; it is ignored")
		case name != loadBalancingKey || value == "enable":
		case !c.in.Partitions:
			c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": load balancing stays on, because exclusive CPUs are no cpuset partitions here")
		case value != "disable":
			c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": load balancing stays on, because only disable switches it off")
		}
	}
}

// checkInterrupts reports an annotation about interrupts that is malformed, or without effect on this node.
func (c *classifier) checkInterrupts(p *Pod, key, value string) {
	asked, known := workload.ParseInterrupts(value)
	switch {
	case !known:
		c.report(p, "", CodeSwitchInvalid, "annotation "+clip(key)+": "+clip(value)+" is none of disable, housekeeping and enable; it is ignored")
	case asked != workload.InterruptsStay && !c.in.Interrupts:
		c.report(p, "", CodeSwitchIgnored, "annotation "+clip(key)+": interrupts stay where they are, because interrupts.away is off here")
	}
}
