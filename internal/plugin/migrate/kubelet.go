package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// kubelet adds statements from the merged settings of a kubelet
// (kubelet.config.k8s.io/v1beta1).
func (f *facts) kubelet(s settings) {
	before := len(f.errs)
	f.kinds(s)
	policy, source, said := s.text("cpuManagerPolicy")
	if policy != "" && policy != "none" && policy != "static" {
		f.fail("%s: %q is neither none nor static, and the kubelet does not start with it", source, shorten(policy))
	}
	if len(f.errs) > before {
		return
	}
	if said && policy != "" {
		f.say(keyPolicy, policy, source)
	}
	if list, source, ok := s.text("reservedSystemCPUs"); ok && list != "" {
		if set := f.cpus(source, list); !set.IsEmpty() {
			f.say(keyReserved, set.String(), source)
		}
	}
	f.kubeletBesides(s, policy == "static")
	if policy != "static" {
		return
	}
	f.note(source, "two managers of cpusets cannot share a node, and cpupoold takes over",
		"write cpuManagerPolicy: none, remove cpu_manager_state while the kubelet is stopped, and start it again; or write guaranteed.exclusive: kubelet")
	f.say(keyGuaranteed, fromShared, source)
	f.kubeletOptions(s)
	f.kubeletReserved(s)
	topology, topologySource, ok := s.text("topologyManagerPolicy")
	if ok && topology != "" {
		f.topologyPolicy(topology, topologySource)
		return
	}
	f.afterwards = append(f.afterwards, func() {
		if _, said := f.said[keyOptions+"topology-policy"]; !said {
			f.say(keyOptions+"topology-policy", "none", topologySource) // the kubelet's default
		}
	})
}

// topologyPolicy takes one of the topology manager's.
func (f *facts) topologyPolicy(policy, source string) {
	if !slices.Contains([]string{"none", "best-effort", "restricted", "single-numa-node"}, policy) {
		f.fail("%s: %q is no policy; write none, best-effort, restricted or single-numa-node", source, shorten(policy))
		return
	}
	f.say(keyOptions+"topology-policy", policy, source)
}

// kinds refuses lists and maps instead of texts, and the reverse.
func (f *facts) kinds(s settings) {
	maps := []string{"cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "systemReserved", "kubeReserved"}
	for _, key := range readKeys() {
		isMap := slices.Contains(maps, key)
		for _, k := range append(s.below(key), key) {
			in, said := s.said[k]
			switch {
			case !said:
			case k == key && isMap:
				f.fail("%s: is not a map of keys and values; write one", s.source(k))
			case k != key && !isMap || in.value.Kind != yaml.ScalarNode && key != "reservedMemory":
				f.fail("%s %w; write one such as %q", s.source(k), ErrNotString, "0-3")
			}
		}
	}
}

// kubeletOptions takes cpuManagerPolicyOptions, which have the same names here. The kubelet
// parses their values with strconv.ParseBool (pkg/kubelet/cm/cpumanager/policy_options.go).
func (f *facts) kubeletOptions(s settings) {
	names := []string{"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache", strict}
	for _, key := range s.below("cpuManagerPolicyOptions") {
		_, name, _ := strings.Cut(key, ".")
		text, source, _ := s.text(key)
		on, err := strconv.ParseBool(text)
		switch {
		case err != nil:
			f.fail("%s: %q is neither true nor false", source, shorten(text))
		case name == strict:
			f.say(keyStrict, strconv.FormatBool(on), source)
		case slices.Contains(names, name):
			f.say(keyOptions+name, strconv.FormatBool(on), source)
		default:
			f.note(source, "there is no such option", "known ones are "+strings.Join(names, ", "))
		}
	}
}

// strict is the option that has no name in package allocate.
const strict = "strict-cpu-reservation"

// kubeletReserved reads the reservation. Without a list, the kubelet does not allocate as many
// CPUs as it reserves, and the shared pool gets them.
func (f *facts) kubeletReserved(s settings) {
	sum, found := int64(0), false
	for _, key := range []string{"systemReserved.cpu", "kubeReserved.cpu"} {
		amount, source, ok := s.text(key)
		if !ok {
			continue
		}
		milli, err := milliCPU(amount)
		if err != nil {
			f.fail("%s: %w", source, err)
			return
		}
		sum, found = sum+milli, true
	}
	if !found {
		f.afterwards = append(f.afterwards, func() {
			if _, list := f.said[keyReserved]; !list && !f.managed() {
				f.note(s.source("reservedSystemCPUs"), "nothing is reserved in these files, and the kubelet does not start without a reservation: flags set it, or the node computes it",
					"write a partition with a list of CPUs, or guaranteed.floor")
			}
		})
		return
	}
	cpus := (sum + 999) / 1000
	source := s.place("systemReserved.cpu", "kubeReserved.cpu") + "systemReserved and kubeReserved"
	manager := s.source("cpuManagerPolicy")
	f.afterwards = append(f.afterwards, func() {
		if _, list := f.said[keyReserved]; list {
			return // another file has the list
		}
		f.say(keyFloor, strconv.FormatInt(max(cpus, 1), 10), source)
		f.note(source, fmt.Sprintf("state the number of CPUs that are never exclusive, %d, but no list: the shared pool keeps as many", cpus),
			"write a partition with a list of CPUs to have a management pool")
		if f.said[keyStrict].value == "true" {
			f.note(f.said[keyStrict].source,
				fmt.Sprintf("keeps ordinary pods off the %d CPUs that the kubelet chooses for these amounts, the first cores of the machine; here ordinary pods run on them", cpus),
				"write a partition with a list of these CPUs, which no ordinary pod runs on")
		}
		if _, said := f.said[partitionKey("management")]; !said {
			f.say(partitionKey("management"), allCPUs, manager)
		}
	})
}

// kubeletBesides notes keys about CPUs without an equivalent, and unknown keys.
func (f *facts) kubeletBesides(s settings, static bool) {
	if policy, source, _ := s.text("memoryManagerPolicy"); policy == "Static" {
		f.note(source, "the kubelet goes on to place memory", "keep it, and write guaranteed.memory: bind if the memory is to follow the CPUs")
	}
	if off, source, ok := s.text("cpuCFSQuota"); ok && strings.EqualFold(off, "false") {
		f.note(source, "the kubelet gives ordinary pods no quota, as before; pods of workload types have one if their annotation contains cpulimit", "keep it")
	}
	if _, source, ok := s.text("cpuCFSQuotaPeriod"); ok {
		f.note(source, "is applied by the kubelet; cpupoold keeps the period of each container's quota", "keep it")
	}
	if static {
		if scope, source, _ := s.text("topologyManagerScope"); scope == "pod" {
			f.note(source, "containers are aligned one by one here, and follow the NUMA nodes that the kubelet gives their devices and memory",
				"keep the scope in the kubelet: it still places devices and memory by it")
		}
		if _, source, ok := s.text("cpuManagerReconcilePeriod"); ok {
			f.note(source, "cpupoold repairs at once what others write", "resyncPeriod bounds how long an event that was lost is not noticed")
		}
		for _, key := range s.below("topologyManagerPolicyOptions") {
			f.note(s.source(key), "has no option here: exclusive CPUs follow the NUMA nodes that the kubelet gives devices and memory", "keep it in the kubelet")
		}
	}
	for _, key := range s.below("featureGates") {
		if strings.Contains(key, "CPUManager") || strings.Contains(key, "TopologyManager") {
			f.note(s.source(key), "is the kubelet's own", "remove it with cpuManagerPolicy: static")
		}
	}
	about := regexp.MustCompile(`(?i)cpu|topology|reserved`)
	for _, key := range slices.Sorted(maps.Keys(s.said)) {
		if top, _, _ := strings.Cut(key, "."); about.MatchString(top) && !slices.Contains(readKeys(), top) {
			f.note(s.source(key), "is not known", "correct it if it is misspelt; a kubelet warns of such a key and goes on without it")
		}
	}
}

// readKeys returns the keys of a KubeletConfiguration that this package reads, and keys with
// similar names that are not about CPU pools.
func readKeys() []string {
	return []string{
		"cpuManagerPolicy", "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "cpuCFSQuota", "cpuCFSQuotaPeriod", "reservedSystemCPUs",
		"systemReserved", "kubeReserved", "topologyManagerPolicy", "topologyManagerPolicyOptions", "topologyManagerScope",
		"systemReservedCgroup", "kubeReservedCgroup", "reservedMemory",
	}
}

// milliCPU parses an amount of CPU such as 500m, 2 or 1.5. It takes no exponents, and
// nothing long: Kubernetes' own parser can be kept busy with these.
func milliCPU(s string) (int64, error) {
	if !regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,3}|m)?$`).MatchString(s) {
		return 0, fmt.Errorf("%q is not an amount of CPU; write one such as 500m or 2", shorten(s))
	}
	q, err := resource.ParseQuantity(s)
	return q.MilliValue(), err
}

// kubeletConfig takes an object KubeletConfig of OpenShift's
// (machineconfiguration.openshift.io/v1).
func (f *facts) kubeletConfig(o object) {
	for _, p := range pairs(at(o.doc, "spec")) {
		source := o.file + ": spec." + p.key
		switch p.key {
		case "kubeletConfig":
		case "machineConfigPoolSelector":
			f.note(source, "a configuration is for one node, and selects no nodes", "give it to these nodes, by a DaemonSet with such a nodeSelector or as a file")
		case "autoSizingReserved":
			if on, _ := f.flag(source, p.value); on {
				f.note(source, "how many CPUs are reserved is computed on the node, and is not in this file", "write a partition with a list of CPUs, or guaranteed.floor")
			}
		case "logLevel", "tlsSecurityProfile":
		default:
			f.note(source, "is not known", "")
		}
	}
	f.kubelet(merged([]object{{file: o.file, keys: "spec.kubeletConfig.", doc: at(o.doc, "spec", "kubeletConfig")}}))
}

// kubelets reads the KubeletConfigurations of one kubelet, which has one file and one
// directory of drop-ins.
func (f *facts) kubelets(all []object) {
	var mains, dirs []string
	for _, o := range all {
		switch dir := path.Dir(o.inside()); {
		case o.dropIn() == "":
			mains = append(mains, o.file)
		case !slices.Contains(dirs, dir):
			dirs = append(dirs, dir)
		}
	}
	const remedy = "a kubelet has one, with drop-ins, which are *.conf in one directory whose name ends in .d; give the files of one node"
	switch {
	case len(mains) > 1:
		f.fail("%d KubeletConfigurations, and %s: %s", len(mains), remedy, layout.Few(mains, mostNames))
	case len(dirs) > 1:
		f.fail("%d directories with drop-ins of KubeletConfiguration, and %s: %s", len(dirs), remedy, layout.Few(dirs, mostNames))
	case len(all) > 0:
		f.kubelet(merged(all))
	}
}

// settings holds the merged settings of a kubelet's files, by key, and by KEY.KEY in maps.
type settings struct {
	said   map[string]setting
	origin string // place of the first file, for keys in no file
}

type setting struct {
	value *yaml.Node
	place string // the file, up to the keys
}

// merged merges files as the kubelet does (cmd/kubelet/app/server.go): its file, then drop-ins
// by their names, each a JSON merge patch (RFC 7386). Maps are merged key by key. Other values
// are replaced, and null removes a value.
func merged(files []object) settings {
	files = slices.SortedStableFunc(slices.Values(files), func(a, b object) int { return cmp.Compare(a.dropIn(), b.dropIn()) })
	s := settings{said: map[string]setting{}}
	for _, o := range files {
		place := o.file + ": " + o.keys
		if s.origin == "" {
			s.origin = place
		}
		for _, p := range pairs(o.doc) {
			s.patch(p.key, p.value, place)
		}
	}
	return s
}

func (s settings) patch(key string, value *yaml.Node, place string) {
	if value.Kind != yaml.MappingNode {
		for _, inside := range s.below(key) {
			delete(s.said, inside)
		}
		s.put(key, value, place)
		return
	}
	delete(s.said, key)
	for _, p := range pairs(value) {
		s.put(key+"."+p.key, p.value, place)
	}
}

func (s settings) put(key string, value *yaml.Node, place string) {
	if value.Tag == "!!null" {
		delete(s.said, key)
		return
	}
	s.said[key] = setting{value, place}
}

// below are the keys in a map, in their order.
func (s settings) below(key string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(s.said)) {
		if strings.HasPrefix(k, key+".") {
			all = append(all, k)
		}
	}
	return all
}

// text is a scalar, its source, and whether there is one.
func (s settings) text(key string) (value, source string, ok bool) {
	value, ok = text(s.said[key].value)
	return value, s.source(key), ok
}

// source returns a key with its file, or with the first file if no file has the key.
func (s settings) source(key string) string { return s.place(key) + key }

func (s settings) place(keys ...string) string {
	for _, key := range keys {
		if in, ok := s.said[key]; ok {
			return in.place
		}
	}
	return s.origin
}

// kubeletArguments makes the keys of a KubeletConfiguration of the kubelet's arguments in a
// configuration of k3s or RKE2, as far as these are about CPUs.
func (f *facts) kubeletArguments(file string, list *yaml.Node) *yaml.Node {
	keys := map[string]string{
		"cpu-manager-policy": "cpuManagerPolicy", "reserved-cpus": "reservedSystemCPUs", "topology-manager-policy": "topologyManagerPolicy",
		"memory-manager-policy": "memoryManagerPolicy",
	}
	maps := map[string]string{
		"cpu-manager-policy-options": "cpuManagerPolicyOptions", "topology-manager-policy-options": "topologyManagerPolicyOptions",
		"kube-reserved": "kubeReserved", "system-reserved": "systemReserved",
	}
	all := []*yaml.Node{list}
	if list.Kind == yaml.SequenceNode {
		all = items(list)
	}
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, argument := range all {
		name, value, _ := strings.Cut(strings.TrimLeft(target(argument).Value, "-"), "=")
		switch {
		case keys[name] != "":
			set(made, keys[name], scalar(value))
		case maps[name] != "":
			of := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			for pair := range strings.SplitSeq(value, ",") {
				if key, value, ok := strings.Cut(pair, "="); ok {
					set(of, strings.TrimSpace(key), scalar(value))
				}
			}
			set(made, maps[name], of)
		case name == "config" || name == "config-dir":
			f.note(file+": kubelet-arg: "+name, "names another configuration of the kubelet", "give "+shorten(value)+", too")
		}
	}
	return made
}

func scalar(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(value)}
}

// set sets a key. The last one of several counts, as with the kubelet.
func set(doc *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i < len(doc.Content); i += 2 {
		if doc.Content[i].Value == key {
			doc.Content[i+1] = value
			return
		}
	}
	doc.Content = append(doc.Content, scalar(key), value)
}
