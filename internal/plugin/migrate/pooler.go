package migrate

import (
	"cmp"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// poolConfigs returns the pools in a ConfigMap: keys poolconfig-*.yaml, each with the pools
// of the nodes that its nodeSelector selects.
func poolConfigs(file string, doc *yaml.Node) (all []object, err error) {
	for _, p := range pairs(at(doc, "data")) {
		if !strings.HasPrefix(p.key, "poolconfig-") || p.value.Kind != yaml.ScalarNode {
			continue
		}
		docs, err := documents([]byte(p.value.Value))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, p.key, err)
		}
		for _, doc := range docs {
			all = append(all, object{file: file + ": " + p.key, name: p.key, about: selectorText(doc), doc: doc})
		}
	}
	return all, nil
}

// selectorText is which nodes are meant, for people.
func selectorText(doc *yaml.Node) string {
	var labels []string
	for _, p := range pairs(at(doc, "nodeSelector")) {
		labels = append(labels, shorten(p.key)+"="+shorten(p.value.Value))
	}
	if len(labels) == 0 {
		return ""
	}
	return " (nodes with " + strings.Join(labels, " or ") + ")"
}

func (f *facts) pools(p object, t *topology.Topology) {
	source := p.file
	policies := map[string]bool{}
	if nodes := selectorText(p.doc); nodes != "" {
		f.note(source+": nodeSelector", "a configuration is for one node, and selects no nodes", "give it to its nodes:"+nodes)
	}
	var exclusive, shared, rest cpuset.Set
	var first, defaultSource, sharedSource string
	for _, pool := range pairs(at(p.doc, "pools")) {
		at := source + ": pools." + shorten(pool.key)
		list, ok := text(pool.value, "cpus")
		cpus := f.cpus(at+".cpus", list)
		switch {
		case !ok || cpus.IsEmpty():
			f.fail("%s.cpus %w; write a list such as 4-7", at, ErrRequired)
		case strings.HasPrefix(pool.key, "exclusive"):
			cpus = f.threads(at, pool.value, cpus, t)
			policy, _ := text(pool.value, "hyperThreadingPolicy")
			policies[cmp.Or(policy, "singleThreaded")] = true
			if first != "" {
				f.note(at, "there is one guaranteed pool: it has these CPUs and the CPUs of "+first, "pods cannot choose between them; give nodes different configurations if they must")
			} else {
				first = at
			}
			exclusive = exclusive.Union(cpus)
		case strings.HasPrefix(pool.key, "shared"):
			if sharedSource != "" {
				f.fail("%s and %s: a node has one shared pool; put their CPUs into one", sharedSource, at)
			}
			shared, sharedSource = cpus, at
		case pool.key == "default":
			rest, defaultSource = cpus, at
		default:
			f.fail("%s: is none of default, shared_NAME and exclusive_NAME", at)
		}
	}
	if len(policies) > 1 {
		f.note(source+": pools", "one exclusive pool is multiThreaded and another is not; there is one guaranteed pool, and full-pcpus-only applies to the whole pool",
			"give nodes different configurations, or leave full-pcpus-only out")
	}
	if !exclusive.IsEmpty() {
		f.say(keyGuaranteed, exclusive.String(), first)
	}
	if shared.IsEmpty() {
		shared, sharedSource, rest = rest, defaultSource, cpuset.Set{}
	}
	if !shared.IsEmpty() {
		f.say(keyShared, shared.String(), sharedSource)
	}
	if !rest.IsEmpty() {
		f.say(partitionKey("management"), rest.String(), defaultSource)
		f.note(defaultSource, "it is the management pool here, and pods without an annotation run in the shared pool, not in it",
			"to keep pods in it, annotate them with target.workload.openshift.io/management, and list their namespaces")
	}
	f.note(source, "annotations nokia.k8s.io/cpus and resources nokia.k8s.io/POOL mean nothing to cpupoold",
		"let pods request whole CPUs with equal limits for exclusive CPUs, fractions for shared ones, and cpu-shared.workload.openshift.io/CONTAINER: enable for both; docs/how-to/read-cpus.md describes how threads find them")
}

// threads adds the siblings that multiThreaded gives with each CPU.
func (f *facts) threads(source string, pool *yaml.Node, cpus cpuset.Set, t *topology.Topology) cpuset.Set {
	policy, _ := text(pool, "hyperThreadingPolicy")
	switch policy {
	case "", "singleThreaded":
		return cpus
	case "multiThreaded":
	default:
		f.fail("%s.hyperThreadingPolicy: %q is neither singleThreaded nor multiThreaded", source, shorten(policy))
		return cpus
	}
	f.say(keyOptions+"full-pcpus-only", "true", source+".hyperThreadingPolicy")
	f.note(source+".hyperThreadingPolicy", "a pod gets whole cores, and a CPU of its request is one thread here: instead of 1, request the number of threads of a core", "change the requests of pods")
	if t == nil {
		f.note(source+".cpus", "the other threads of the cores of "+cpus.String()+" belong to it, and which they are is not known", "give the machine with --topology, such as --topology 1s16c2t or what cpupoold topology -o json prints")
		return cpus
	}
	for _, core := range t.Cores {
		if core.CPUs.Overlaps(cpus) {
			cpus = cpus.Union(core.CPUs)
		}
	}
	return cpus
}

// namespace keeps the annotations of a Namespace, which are the permissions of its pods.
func (f *facts) namespace(doc *yaml.Node) {
	name, ok := text(doc, "metadata", "name")
	if !ok || !isLabel(name) {
		return
	}
	all := map[string]string{}
	for _, p := range pairs(at(doc, "metadata", "annotations")) {
		all[p.key] = p.value.Value
	}
	f.annotations[name] = all
}
