package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/allocate"
)

// kubelet takes a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); source is its
// place, up to the keys.
func (f *facts) kubelet(source string, doc *yaml.Node) {
	if list, ok := text(doc, "reservedSystemCPUs"); ok && list != "" {
		if set := f.cpus(source+"reservedSystemCPUs", list); !set.IsEmpty() {
			f.say(keyReserved, set.String(), source+"reservedSystemCPUs")
		}
	}
	if policy, ok := text(doc, "memoryManagerPolicy"); ok && policy == "Static" {
		f.note(source+"memoryManagerPolicy", "the kubelet goes on to place memory", "keep it, and write guaranteed.memory: bind if the memory is to follow the CPUs")
	}
	if !is(doc, "static", "cpuManagerPolicy") {
		return
	}
	f.note(source+"cpuManagerPolicy", "two managers of cpusets cannot share a node, and cpupoold takes over",
		"write cpuManagerPolicy: none, remove cpu_manager_state while the kubelet is stopped, and start it again; or write guaranteed.exclusive: kubelet")
	f.say(keyGuaranteed, fromShared, source+"cpuManagerPolicy")
	f.kubeletOptions(source, doc)
	f.kubeletReserved(source, doc)
	policy, ok := text(doc, "topologyManagerPolicy")
	if !ok || policy == "" {
		policy = "none" // the kubelet's default
	}
	f.say(keyOptions+"topology-policy", policy, source+"topologyManagerPolicy")
	if is(doc, "pod", "topologyManagerScope") {
		f.note(source+"topologyManagerScope", "containers are aligned one by one here, and follow the NUMA nodes that the kubelet gives their devices and memory",
			"keep the scope in the kubelet: it still places devices and memory by it")
	}
	if _, ok := text(doc, "cpuManagerReconcilePeriod"); ok {
		f.note(source+"cpuManagerReconcilePeriod", "cpupoold repairs at once what others write", "resyncPeriod bounds how long an event that was lost is not noticed")
	}
}

// kubeletOptions takes cpuManagerPolicyOptions, which have the same names here.
func (f *facts) kubeletOptions(source string, doc *yaml.Node) {
	strict := false
	names := allocate.OptionNames()
	for _, p := range pairs(at(doc, "cpuManagerPolicyOptions")) {
		key := source + "cpuManagerPolicyOptions." + p.key
		switch value := p.value.Value; {
		case p.value.Kind != yaml.ScalarNode || value != "true" && value != "false":
			f.fail("%s: %q is neither true nor false", key, shorten(value))
		case p.key == "strict-cpu-reservation":
			strict = value == "true"
		case slices.Contains(names, p.key):
			f.say(keyOptions+p.key, value, key)
		default:
			f.note(key, "there is no such option", "known ones are "+strings.Join(names, ", "))
		}
	}
	if !strict {
		f.said[keyLax] = statement{"true", source + "cpuManagerPolicyOptions"}
	}
}

// kubeletReserved: without a list the kubelet keeps as many CPUs as are reserved out of
// those that it gives away, and the shared pool has them.
func (f *facts) kubeletReserved(source string, doc *yaml.Node) {
	sum, found := int64(0), false
	for _, key := range []string{"systemReserved", "kubeReserved"} {
		amount, ok := text(doc, key, "cpu")
		if !ok {
			continue
		}
		milli, err := milliCPU(amount)
		if err != nil {
			f.fail("%s%s.cpu: %w", source, key, err)
			return
		}
		sum, found = sum+milli, true
	}
	if !found {
		return
	}
	cpus := (sum + 999) / 1000
	f.afterwards = append(f.afterwards, func() {
		if _, list := f.said[keyReserved]; list {
			return // it may be in a drop-in that is read later
		}
		f.say(keyFloor, strconv.FormatInt(max(cpus, 1), 10), source+"systemReserved and kubeReserved")
		f.note(source+"systemReserved and kubeReserved", fmt.Sprintf("say how many CPUs are never given away, %d, and not which: the shared pool keeps as many", cpus),
			"write a partition with a list of CPUs to have a management pool")
		if _, said := f.said[partitionKey("management")]; !said {
			f.say(partitionKey("management"), allCPUs, source+"cpuManagerPolicy")
		}
	})
}

// milliCPU parses an amount of CPU such as 500m, 2 or 1.5. It takes no exponents, and
// nothing long: Kubernetes' own parser can be kept busy with these.
func milliCPU(s string) (int64, error) {
	m := regexp.MustCompile(`^([0-9]{1,6})(\.[0-9]{1,3})?(m?)$`).FindStringSubmatch(s)
	if m == nil || m[2] != "" && m[3] != "" {
		return 0, fmt.Errorf("%q is not an amount of CPU; write one such as 500m or 2", shorten(s))
	}
	whole, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || m[3] != "" {
		return whole, err
	}
	fraction, err := strconv.ParseInt((strings.TrimPrefix(m[2], ".") + "000")[:3], 10, 64)
	return whole*1000 + fraction, err
}
