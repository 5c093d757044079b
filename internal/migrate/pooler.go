package migrate

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// poolConfig is one poolconfig-*.yaml of CPU-Pooler: the pools of the nodes that its
// nodeSelector selects.
type poolConfig struct {
	file, key string
	doc       *yaml.Node
}

func (p poolConfig) source() string {
	if p.key == "" {
		return p.file
	}
	return p.file + ": " + p.key
}

// poolConfigs are those of a ConfigMap.
func poolConfigs(file string, doc *yaml.Node) (all []poolConfig, err error) {
	for _, p := range pairs(at(doc, "data")) {
		if !strings.HasPrefix(p.key, "poolconfig-") || p.value.Kind != yaml.ScalarNode {
			continue
		}
		docs, err := documents([]byte(p.value.Value))
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", file, p.key, err)
		}
		for _, doc := range docs {
			all = append(all, poolConfig{file, p.key, doc})
		}
	}
	return all, nil
}

// pooler takes the pools of one node out of those that there are.
func (f *facts) pooler(all []poolConfig, o Options) {
	named := func(p poolConfig) bool {
		return o.PoolConfig == "" || p.key == o.PoolConfig || p.key == "" && p.file == o.PoolConfig
	}
	var chosen []poolConfig
	var names []string
	for _, p := range all {
		if named(p) {
			chosen = append(chosen, p)
		}
		names = append(names, p.source()+selectorText(p.doc))
	}
	switch {
	case len(all) == 0 && o.PoolConfig != "":
		f.fail("there is no pool configuration %q of CPU-Pooler in these files", o.PoolConfig)
	case len(all) > 0 && len(chosen) == 0:
		f.fail("there is no pool configuration %q; there are %s", o.PoolConfig, strings.Join(names, ", "))
	case len(chosen) > 1:
		f.fail("%d pool configurations, and a node has one; name it with --pool-config: %s", len(chosen), strings.Join(names, ", "))
	case len(chosen) == 1:
		f.pools(chosen[0], o.Topology)
	}
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

// pools takes a pool configuration.
func (f *facts) pools(p poolConfig, t *topology.Topology) {
	source := p.source()
	if nodes := selectorText(p.doc); nodes != "" {
		f.note(source+": nodeSelector", "a configuration is that of a node, and does not select any", "give it to its nodes:"+nodes)
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
			if first != "" {
				f.note(at, "there is one guaranteed pool: its CPUs are in it with those of "+first, "pods cannot choose between them; give nodes different configurations if they must")
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
		f.note(defaultSource, "it is the management pool here, and pods that say nothing run in the shared pool, not in it",
			"annotate pods that are to stay with target.workload.openshift.io/management, and list their namespaces")
	}
	f.note(source, "annotations nokia.k8s.io/cpus and resources nokia.k8s.io/POOL mean nothing to cpupoold",
		"let pods request whole CPUs with equal limits for CPUs of their own, fractions for shared ones, and cpu-shared.workload.openshift.io/CONTAINER: enable for both; docs/applications.md says how threads find them")
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
	f.note(source+".hyperThreadingPolicy", "a pod gets whole cores, and a CPU of its request is one thread here: what asked for 1 asks for as many as a core has threads", "change the requests of pods")
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

// namespace takes what a Namespace allows by its annotations.
func (f *facts) namespace(doc *yaml.Node) {
	name, ok := text(doc, "metadata", "name")
	if !ok || !isLabel(name) {
		return
	}
	annotations := at(doc, "metadata", "annotations")
	for _, p := range pairs(annotations) {
		switch p.key {
		case "workload.openshift.io/allowed":
			for typ := range strings.SplitSeq(p.value.Value, ",") {
				if !slices.Contains(f.types[typ], name) {
					f.types[typ] = append(f.types[typ], name)
				}
			}
		case "workload.mixedcpus.openshift.io/allowed":
			f.mixed = append(f.mixed, name)
		}
	}
}
