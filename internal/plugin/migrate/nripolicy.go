package migrate

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// nriPolicy reads a BalloonsPolicy or a TopologyAwarePolicy of nri-plugins. It knows the fields in
// pkg/apis/config/v1alpha1 of containers/nri-plugins (2026).
func (f *facts) nriPolicy(o object, t *topology.Topology) {
	kind, _ := text(o.doc, "kind")
	spec, source := at(o.doc, "spec"), o.file+": spec"
	if len(pairs(spec)) == 0 {
		f.fail("%s %w: a %s configures the plugin there", source, ErrRequired, kind)
		return
	}
	if version, _ := text(o.doc, "apiVersion"); version != "" && version != "config.nri/v1alpha1" {
		f.note(o.file+": apiVersion", shorten(version)+" is not known, and is read as config.nri/v1alpha1", "compare the configuration with the policy")
	}
	if scope, _, narrow := strings.Cut(o.name, "."); narrow && (scope == "node" || scope == "group") {
		f.note(o.file+": metadata.name", "a configuration is for one node, and does not select nodes", "give it to the nodes of "+shorten(o.name))
	}
	p := nri{facts: f, source: source, spec: spec}
	for _, key := range []string{"availableResources", "reservedResources", "control"} {
		if n := at(spec, key); n != nil && n.Kind != yaml.MappingNode {
			f.fail("%s.%s: is not a map of keys and values; write one", source, key)
		}
	}
	p.reserve(t)
	for n, typ := range f.list(source+".balloonTypes", at(spec, "balloonTypes"), " of balloon types") {
		p.balloonType(n, target(typ))
	}
	if kind == "TopologyAwarePolicy" {
		p.topologyAware()
	} else if !p.exclusive {
		f.note(source+".balloonTypes", "no balloon type has preferNewBalloons, so that no container has exclusive CPUs here", "write guaranteed.from: shared to give containers with whole CPUs exclusive CPUs")
	}
	for _, pair := range pairs(spec) {
		p.key(pair)
	}
	p.choose()
	f.note(o.file, "annotations of resource-policy.nri.io mean nothing to cpupoold, and pods of a namespace do not enter a management pool without an annotation",
		"annotate pods of the reserved CPUs with target.workload.openshift.io/management, and let pods request whole CPUs with equal limits for exclusive CPUs")
	f.note(o.file, "cpupoold does not start together with the plugin by default", "uninstall the plugin, or write otherManagers.nriPlugins: standDown")
}

// nri is one policy while it is read.
type nri struct {
	*facts
	source string
	spec   *yaml.Node
	// exclusive reports whether containers have exclusive CPUs.
	exclusive bool
	// chosen has the values of each option in the exclusive balloon types.
	chosen map[string][]statement
}

// amount is a value of availableResources or reservedResources: cpuset:LIST, exclude-cpuset:LIST or
// a number of CPUs (Constraints.Get in pkg/apis/config/v1alpha1/resmgr/policy/config.go).
func (p *nri) amount(key string) (kind, value string) {
	amount, ok := text(p.spec, key, "cpu")
	if !ok {
		return "", ""
	}
	if kind, list, ok := strings.Cut(amount, ":"); ok && (kind == "cpuset" || kind == "exclude-cpuset") {
		return kind, list
	}
	return "amount", amount
}

// available returns the CPUs that the policy uses. The set is empty if they are not known.
func (p *nri) available() (cpus cpuset.Set, isList bool) {
	source := p.source + ".availableResources.cpu"
	switch kind, value := p.amount("availableResources"); kind {
	case "cpuset":
		return p.cpus(source, value), true
	case "exclude-cpuset":
		excluded := p.cpus(source, value)
		if p.present.IsEmpty() {
			p.note(source, "CPUs "+excluded.String()+" are used here, too: which other CPUs the machine has is not known", "give the machine with --topology, such as --topology 1s16c2t")
			return cpuset.Set{}, false
		}
		return p.present.Difference(excluded), true
	case "amount":
		p.fail("%s: %q is not a list of CPUs, and the plugin does not start with it; write one such as cpuset:0-15", source, shorten(value))
	}
	return p.present, false
}

// reserve makes a management pool of reservedResources, and a shared pool of the other available CPUs.
func (p *nri) reserve(t *topology.Topology) {
	source := p.source + ".reservedResources.cpu"
	available, isList := p.available()
	reserved, management := cpuset.Set{}, partitionKey("management")
	switch kind, value := p.amount("reservedResources"); kind {
	case "":
		p.fail("%s %w; write a list such as cpuset:0-1, or an amount such as 750m", source, ErrRequired)
		return
	case "cpuset":
		if reserved = p.cpus(source, value); value == "" {
			p.fail("%s %w; write a list such as cpuset:0-1", source, ErrRequired)
		}
	case "exclude-cpuset":
		excluded := p.cpus(source, value)
		if available.IsEmpty() {
			p.fail("%s: the other CPUs of the machine than %s are not known; give the machine with --topology, such as --topology 1s16c2t", source, excluded)
			return
		}
		reserved = available.Difference(excluded)
	case "amount":
		milli, err := milliCPU(value)
		if err != nil || milli == 0 {
			p.fail("%s: %q is not an amount of CPU above 0; write one such as 750m or 2", source, shorten(value))
			return
		}
		count := int((milli + 999) / 1000)
		if !available.IsEmpty() && count > available.Len() {
			p.fail("%s: %d CPUs cannot be reserved of the %d available ones, %s; write a smaller amount", source, count, available.Len(), available)
			return
		}
		if available.IsEmpty() {
			p.say(management, autoCPUs, source)
			p.note(source, fmt.Sprintf("states an amount, and the plugin chooses CPUs (%d): cpus: auto has the first cores, and as many as fit the machine", count),
				"give the machine with --topology, or write a list of CPUs")
			break
		}
		reserved = firstOf(available, count, t)
		p.note(source, fmt.Sprintf("states an amount, and the plugin chooses CPUs (%d): here they are %s", count, reserved), "write other CPUs in partitions if the pods of the node need them")
	}
	if len(p.errs) > 0 {
		return
	}
	if extra := reserved.Difference(available); !available.IsEmpty() && !extra.IsEmpty() {
		p.fail("%s: CPUs %s are not in availableResources.cpu; leave them out, or add them there", source, extra)
		return
	}
	if !reserved.IsEmpty() {
		p.say(management, reserved.String(), source)
	}
	p.permit("management", "kube-system")
	p.patterns(p.source+".reservedPoolNamespaces", at(p.spec, "reservedPoolNamespaces"))
	if !isList {
		return
	}
	rest := available.Difference(reserved)
	if rest.IsEmpty() {
		p.fail("%s.availableResources.cpu: has no CPU that is not reserved; add CPUs for other pods", p.source)
		return
	}
	p.say(keyShared, rest.String(), p.source+".availableResources.cpu")
}

// firstOf returns the first count CPUs of a set, core by core where the machine is known.
func firstOf(set cpuset.Set, count int, t *topology.Topology) (chosen cpuset.Set) {
	if t != nil {
		for _, core := range t.Cores {
			chosen = chosen.Union(core.CPUs.Intersection(set).Take(count - chosen.Len()))
		}
	}
	return chosen.Union(set.Difference(chosen).Take(count - chosen.Len()))
}

// patterns takes namespaces for the management pool. A pattern has no equivalent.
func (p *nri) patterns(source string, list *yaml.Node) {
	for _, item := range p.list(source, list, " of namespaces") {
		if name := target(item).Value; isLabel(name) {
			p.permit("management", name)
		} else {
			p.note(source, fmt.Sprintf("%q is a pattern, and a partition has names of namespaces", shorten(name)), "name the namespaces with --namespace")
		}
	}
}

// balloonType reads one item of balloonTypes. A type whose containers have new balloons, so far as
// there are CPUs, has the guaranteed pool as its equivalent.
func (p *nri) balloonType(n int, typ *yaml.Node) {
	name, _ := text(typ, "name")
	source := fmt.Sprintf("%s.balloonTypes[%d]", p.source, n)
	if name == "" {
		p.fail("%s.name %w; write a name", source, ErrRequired)
		return
	}
	source += " (" + shorten(name) + ")"
	exclusive, _ := p.flag(source+".preferNewBalloons", at(typ, "preferNewBalloons"))
	if exclusive = exclusive && name != "reserved"; exclusive {
		p.exclusive = true
		p.say(keyGuaranteed, fromShared, source+".preferNewBalloons")
		p.note(source, "its containers have exclusive CPUs here if their pod is Guaranteed and they request whole CPUs; others run in the shared pool",
			"set requests to whole CPUs, with equal limits")
		p.typeOptions(source, typ)
	} else if name != "reserved" {
		p.note(source, "a pool with CPUs that the plugin chooses and changes has no equivalent: its containers run in the shared pool",
			"write a partition with a list of CPUs for a pool of these containers, or let them request whole CPUs with equal limits for exclusive CPUs")
	}
	for _, pair := range pairs(typ) {
		p.typeKey(source, name, exclusive, pair)
	}
}

// typeKey notes a key of a balloon type that has no equivalent.
func (p *nri) typeKey(source, name string, exclusive bool, pair pair) {
	source += "." + pair.key
	_, isOption := nriOptions()[pair.key]
	switch {
	case pair.key == "name" || pair.key == "preferNewBalloons" && exclusive || isOption && exclusive:
	case pair.key == "namespaces" && name == "reserved":
		p.patterns(source, pair.value)
	case isOff(pair.value):
	case isOption:
		p.note(source, "counts only for exclusive CPUs here, and these containers run in the shared pool", "write it in guaranteed.options for exclusive CPUs")
	default:
		p.noteLost(source, pair, nriTypeNotes())
	}
}

// noteLost notes a key that has no equivalent, with the reason and the remedy of a table.
func (p *nri) noteLost(source string, pair pair, table map[string]Note) {
	if lost, known := table[pair.key]; known {
		p.note(source, described(pair.value)+lost.Reason, lost.Remedy)
	} else {
		p.note(source, "is not known", "")
	}
}

// key notes a key of the policy that has no equivalent.
func (p *nri) key(pair pair) {
	source := p.source + "." + pair.key
	_, isOption := nriOptions()[pair.key]
	switch {
	case pair.key == "balloonTypes" || pair.key == "reservedPoolNamespaces":
	case pair.key == "preferIsolatedCPUs" || pair.key == "preferSharedCPUs": // read by topologyAware
	case isOption && p.exclusive: // read with each balloon type
	case pair.key == "availableResources" || pair.key == "reservedResources":
		p.others(source, pair.value, "cpu")
	case pair.key == "pinCPU":
		if on, there := p.flag(source, pair.value); there && !on {
			p.note(source, "the plugin keeps no container on its CPUs; here each container is kept in its pool", "leave out partitions and guaranteed to have no pools")
		}
	case pair.key == "control":
		p.control(source, pair.value)
	case isOff(pair.value):
	case isOption:
		p.note(source, "counts only for exclusive CPUs here, and no balloon type has them", "")
	default:
		p.noteLost(source, pair, nriNotes())
	}
}

// control notes each CPU class, and the other parts of control.
func (p *nri) control(source string, n *yaml.Node) {
	for _, part := range pairs(n) {
		classes := pairs(at(part.value, "classes"))
		if part.key != "cpu" || len(classes) == 0 {
			p.note(source+"."+part.key, "is not about CPU pools", "keep a program that sets it")
			continue
		}
		for _, class := range classes {
			p.note(source+".cpu.classes."+shorten(class.key), described(class.value)+"frequencies of CPUs have no key here", "write power: [governor, cStates], and let pods ask; docs/how-to/manage-power.md has the annotations")
		}
		p.others(source+".cpu", part.value, "classes")
	}
}

// topologyAware reads what only a TopologyAwarePolicy has. That policy gives containers of
// Guaranteed pods that request whole CPUs exclusive ones, unless it prefers shared CPUs.
func (p *nri) topologyAware() {
	source := p.source + ".preferSharedCPUs"
	if shared, _ := p.flag(source, at(p.spec, "preferSharedCPUs")); shared {
		p.note(source, "only containers that an annotation names have exclusive CPUs there, and here no container has them: all containers with whole CPUs would",
			"write guaranteed.from: shared to give these containers exclusive CPUs")
		return
	}
	p.exclusive = true
	p.say(keyGuaranteed, fromShared, source)
	isolated := p.source + ".preferIsolatedCPUs"
	if on, there := p.flag(isolated, at(p.spec, "preferIsolatedCPUs")); on || !there {
		p.say(keyOptions+"isolated-cpus", "prefer", isolated)
		p.note(isolated, "the policy prefers isolated CPUs for requests of one CPU, and here requests of any size do", "leave isolated-cpus out if the kernel isolates CPUs for other programs")
	}
}

// nriTypeNotes are the keys of a balloon type that have no equivalent.
func nriTypeNotes() map[string]Note {
	const size = "the size of a pool that the plugin changes has no equivalent"
	const choice = "pools are not made and chosen container by container here"
	notes := map[string]Note{
		"namespaces":           {Reason: "pods of a namespace do not enter a pool without an annotation or a request", Remedy: "request whole CPUs with equal limits in the pods of these namespaces for exclusive CPUs"},
		"matchExpressions":     {Reason: "labels and names do not choose a pool here", Remedy: "annotate the pods, or let them request whole CPUs with equal limits"},
		"minCPUs":              {Reason: size, Remedy: "the request of a container is the number of its exclusive CPUs; guaranteed.floor is the least size of the shared pool"},
		"maxCPUs":              {Reason: size, Remedy: "the request of a container is the number of its exclusive CPUs; a CPU limit bounds a container of the shared pool"},
		"minBalloons":          {Reason: "pools that exist before their containers have no equivalent", Remedy: "write a partition with a list of CPUs"},
		"maxBalloons":          {Reason: "the number of exclusive owners has no limit of its own", Remedy: "guaranteed.floor bounds how many CPUs they have together"},
		"components":           {Reason: "a pool that consists of other pools has no equivalent", Remedy: "guaranteed.options.distribute-cpus-across-numa takes CPUs from several NUMA nodes"},
		"preferCloseToDevices": {Reason: "paths of devices are not read", Remedy: "exclusive CPUs follow the NUMA nodes of the devices that the kubelet gives the container: guaranteed.options.topology-policy"},
		"shareIdleCPUsInSame":  {Reason: "an exclusive container has no other CPUs, and the shared pool has all CPUs that are not exclusive", Remedy: "guaranteed.mixed adds shared CPUs to exclusive containers"},
		"cpuClass":             {Reason: "frequencies of CPUs have no key here", Remedy: "write power: [governor, cStates], and let pods ask; docs/how-to/manage-power.md has the annotations"},
		"memoryTypes":          {Reason: "types of memory have no equivalent", Remedy: "guaranteed.memory: bind takes the NUMA nodes of the CPUs"},
		"schedulingClass":      {Reason: "scheduling policies and IO priorities have no equivalent", Remedy: "let the application set them"},
		"loads":                {Reason: "the load of neighbours does not choose CPUs here", Remedy: "guaranteed.options.one-owner-per-core keeps other owners off a core"},
		"allocatorPriority":    {Reason: "containers have CPUs in the order of their requests, without priorities", Remedy: ""},
		"showContainersInNrt":  nriNotes()["showContainersInNrt"],
	}
	for _, key := range []string{"componentCreation", "groupBy", "preferSpreadingPods", "preferPerNamespaceBalloon", "preferNewBalloons"} {
		notes[key] = Note{Reason: choice, Remedy: "each container with whole CPUs has exclusive CPUs"}
	}
	notes["componentCreation"] = notes["components"]
	notes["allocatorTopologyBalancing"] = nriNotes()["allocatorTopologyBalancing"]
	return notes
}

// nriNotes are the keys of a policy that have no equivalent.
func nriNotes() map[string]Note {
	const elsewhere = "is not about CPU pools"
	return map[string]Note{
		"idleCPUClass":               {Reason: "frequencies of CPUs have no key here", Remedy: "docs/how-to/manage-power.md has the settings of exclusive CPUs; set other CPUs on the host"},
		"allocatorTopologyBalancing": {Reason: "owners are packed, not spread over sockets and NUMA nodes", Remedy: "guaranteed.options.distribute-cpus-across-numa spreads the CPUs of one owner"},
		"preserve":                   {Reason: "the daemon places each container, and no rule leaves one out", Remedy: "let these containers run in the shared pool"},
		"showContainersInNrt":        {Reason: "the CPUs of containers are not in NodeResourceTopology by a key of the configuration", Remedy: "docs/how-to/topology-scheduler.md describes the objects of the daemon"},
		"loadClasses":                {Reason: "the load of neighbours does not choose CPUs here", Remedy: "guaranteed.options.one-owner-per-core keeps other owners off a core"},
		"schedulingClasses":          {Reason: "scheduling policies and IO priorities have no equivalent", Remedy: "let the application set them"},
		"colocatePods":               {Reason: "CPUs are chosen container by container", Remedy: "pod-level resources give the containers of a pod one set of CPUs"},
		"colocateNamespaces":         {Reason: "namespaces do not choose CPUs here", Remedy: ""},
		"unlimitedBurstable":         {Reason: "containers of Burstable pods without a limit run in the shared pool, which has no part for each NUMA node", Remedy: ""},
		"pinMemory":                  {Reason: "memory of containers without exclusive CPUs follows no pool here", Remedy: "guaranteed.memory: bind binds the memory of exclusive containers"},
		"agent":                      {Reason: elsewhere}, "log": {Reason: elsewhere}, "instrumentation": {Reason: elsewhere},
	}
}
