package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/spelling"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Result is what Import makes.
type Result struct {
	// Configuration is a file of the daemon, which its own parser takes.
	Configuration []byte
	// Config is the parsed configuration.
	Config *config.Config
	Notes  []Note
}

// importer reads files into facts.
type importer struct {
	*facts
	o         Options
	crioFiles []crioFile
	// Objects of which a node has one. The choice follows when all files are read.
	machineConfigs, profiles, kubeletConfigs, kubeletFiles, pooled, nriPolicies []object
	// namespaceObjects is the number of Namespaces. They are no configuration by themselves.
	namespaceObjects int
}

// Import makes one configuration of all files. The error joins one for each thing that is
// wrong.
func Import(files []File, o Options) (Result, error) {
	o.Reading, o.Coverage = cmp.Or(o.Reading, Implementation), cmp.Or(o.Coverage, new(manifest.Coverage))
	i := &importer{o: o, facts: &facts{said: map[string]statement{}, annotations: map[string]map[string]string{}, permitted: map[string][]string{}}}
	if o.Topology != nil {
		i.present = o.Topology.Present
	}
	for _, file := range files {
		i.file(file)
	}
	i.choose()
	i.crio(i.crioFiles, i.o.Reading)
	if len(i.errs) == 0 {
		if err := o.Coverage.Err("a configuration of OpenShift, the kubelet, CRI-O, CPU-Pooler or nri-plugins"); err != nil {
			i.errs = append(i.errs, err)
		}
		for range i.namespaceObjects {
			o.Coverage.Read("Namespace")
		}
	}
	if len(i.errs) == 0 {
		i.settle()
	}
	if len(i.errs) > 0 {
		return Result{}, errors.Join(i.errs...)
	}
	if len(i.said) == 0 {
		i.note("files", "nothing in them is about pools of CPUs: all pods share all CPUs", "give the files that decide where pods run, or write the configuration by hand")
	}
	data := i.print()
	c, err := config.Parse(data, "configuration", config.Overrides{}, o.machine(data))
	if err != nil {
		return Result{}, fmt.Errorf("%w\nwhat was made of the files is no configuration:\n%s", err, data)
	}
	return Result{data, c, i.notes}, nil
}

// choose takes objects of which a node has one. The KubeletConfig that OpenShift's operator
// makes of a profile is called after it.
func (i *importer) choose() {
	i.machines()
	profile, ok := i.one("PerformanceProfile", "--profile", i.o.Profile, i.profiles)
	if ok {
		i.profile(profile, i.o.Reading)
	}
	meant := i.o.KubeletConfig
	if made := "performance-" + profile.name; ok && meant == "" && slices.ContainsFunc(i.kubeletConfigs, func(o object) bool { return o.name == made }) {
		meant = made
	}
	if o, ok := i.one("KubeletConfig", "--kubelet-config", meant, i.kubeletConfigs); ok {
		i.kubeletConfig(o)
	}
	i.kubelets(i.kubeletFiles)
	if o, ok := i.one("pool configuration of CPU-Pooler", "--pool-config", i.o.PoolConfig, i.pooled); ok {
		i.pools(o, i.o.Topology)
	}
	if o, ok := i.one("policy of nri-plugins", "--nri-policy", i.o.NRIPolicy, i.nriPolicies); ok {
		i.nriPolicy(o, i.o.Topology)
	}
}

// machines takes the MachineConfigs of one role, as a node has them: in the order of their
// names. A file of a later MachineConfig replaces the same file of an earlier one. Nodes of a
// custom pool also have the MachineConfigs of workers.
func (i *importer) machines() {
	var roles []string
	role := func(o object) string {
		if pool := o.pool(); pool != "" {
			return pool
		}
		name, _ := text(o.doc, "metadata", "labels", "machineconfiguration.openshift.io/role")
		return name
	}
	i.sources()
	for _, o := range i.machineConfigs {
		if r := role(o); r != "" && !slices.Contains(roles, r) {
			roles = append(roles, r)
		}
	}
	switch {
	case i.o.Role != "" && !slices.Contains(roles, i.o.Role):
		i.fail("there is no MachineConfig of role %q in these files", shorten(i.o.Role))
		return
	case i.o.Role == "" && len(roles) > 1:
		i.fail("MachineConfig: there are some of roles %s, and a node has one; name it with --role", layout.Few(roles, mostNames))
		return
	}
	of := []string{"", i.o.Role}
	if i.o.Role != "master" && !slices.ContainsFunc(i.machineConfigs, func(o object) bool { return o.pool() != "" }) {
		of = append(of, "worker")
	}
	ofRole := slices.DeleteFunc(slices.Clone(i.machineConfigs), func(o object) bool { return i.o.Role != "" && !slices.Contains(of, role(o)) })
	if rendered := slices.DeleteFunc(slices.Clone(ofRole), func(o object) bool { return o.pool() == "" }); len(rendered) > 1 {
		i.fail("MachineConfig: %s are all made for one pool, and a node has one; give only the one in the node's annotation machineconfiguration.openshift.io/currentConfig", names(rendered))
		return
	}
	slices.SortStableFunc(ofRole, func(a, b object) int { return strings.Compare(a.name, b.name) })
	files := map[string]File{}
	for _, o := range ofRole {
		for _, file := range i.machineConfig(o.file, o.doc) {
			files[object{file: file.Name}.inside()] = file
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		i.file(files[name])
	}
}

// sources leaves out the MachineConfigs that OpenShift makes of others, if these are there, too.
// It keeps old ones for months.
func (i *importer) sources() {
	isMade := func(o object) bool { return o.pool() != "" }
	made := slices.DeleteFunc(slices.Clone(i.machineConfigs), func(o object) bool { return !isMade(o) })
	if len(made) == 0 || len(made) == len(i.machineConfigs) {
		return
	}
	i.machineConfigs = slices.DeleteFunc(i.machineConfigs, isMade)
	i.note("MachineConfig "+names(made), "is made of other MachineConfigs, and those are read", "")
}

func names(all []object) string {
	var list []string
	for _, o := range all {
		list = append(list, o.name)
	}
	return layout.Few(list, mostNames)
}

// pool returns the MachineConfigPool for which a MachineConfig was made of others, or "".
func (o object) pool() string {
	for _, owner := range items(at(o.doc, "metadata", "ownerReferences")) {
		if kind, _ := text(owner, "kind"); kind == "MachineConfigPool" && strings.HasPrefix(o.name, "rendered-") {
			name, _ := text(owner, "name")
			return name
		}
	}
	return ""
}

// machine returns the machine for the check of a configuration: the known machine, or a
// machine with at least the CPUs that the files name.
func (o Options) machine(data []byte) *topology.Topology {
	if o.Topology != nil {
		return o.Topology
	}
	last := 0
	if c, err := config.Parse(data, "", config.Overrides{}, nil); err == nil {
		p := c.Pools
		named := p.Guaranteed.CPUs.Union(p.Guaranteed.Mixed.CPUs, p.Guaranteed.Claims.CPUs)
		if p.Shared != nil {
			named = named.Union(*p.Shared)
		}
		for _, part := range p.Partitions {
			named = named.Union(part.CPUs)
		}
		last = max(named.Last(), 0) + p.Guaranteed.Floor
	}
	all := cpuset.Range(0, min(last+64, cpuset.MaxCPUs-1))
	return &topology.Topology{Present: all, Online: all}
}

// file finds out by its content what a file is.
func (i *importer) file(file File) {
	if len(file.Data) > maxList {
		i.o.Coverage.Skip("large file", file.Name)
		i.note(file.Name, fmt.Sprintf("is %d bytes long, and is not read: the limit is %d", len(file.Data), maxList), "give the objects of one node in a file of their own if they are in it")
		return
	}
	if path.Base(file.Name) == path.Base(PinningFile) {
		i.o.Coverage.Read("pinning file")
		i.pinning(file.Name, file.Data, i.o.Reading)
		return
	}
	c, ok, err := parseCRIO(file.Name, file.Data)
	if err != nil {
		i.errs = append(i.errs, err)
		return
	}
	if ok {
		i.o.Coverage.Read("configuration of CRI-O")
		i.crioFiles = append(i.crioFiles, c)
		return
	}
	docs, err := documents(file.Data)
	meant := regexp.MustCompile(`kind"?\s*:|"cpuset"|pools"?\s*:|kubelet(-arg)?"?\s*:`)
	if err != nil && !meant.Match(file.Data) {
		i.skip(file.Name, "file of another format", "")
		return
	}
	if err != nil {
		i.fail("%s: %w", file.Name, err)
		return
	}
	if len(docs) == 0 {
		i.skip(file.Name, "empty file", "")
	}
	for n, doc := range docs {
		name := file.Name
		if len(docs) > 1 {
			name = fmt.Sprintf("%s[%d]", name, n)
		}
		i.document(name, doc, file.Data)
	}
}

// skip notes an input that is not read. Label is its kind in the coverage.
func (i *importer) skip(name, label, remedy string) {
	i.o.Coverage.Skip(label, name)
	i.note(name, "is nothing that is read here", remedy)
}

// document takes an object, or a file that is YAML or JSON without a kind.
func (i *importer) document(name string, doc *yaml.Node, data []byte) {
	kind, _ := text(doc, "kind")
	if isList(kind, doc) {
		i.list(name, doc)
		return
	}
	label := cmp.Or(kind, "document without kind")
	named := map[string]*[]object{
		"PerformanceProfile": &i.profiles, "KubeletConfig": &i.kubeletConfigs, "MachineConfig": &i.machineConfigs,
		"BalloonsPolicy": &i.nriPolicies, "TopologyAwarePolicy": &i.nriPolicies,
	}[kind]
	switch {
	case named != nil:
		own, _ := text(doc, "metadata", "name")
		*named = append(*named, object{file: name, name: own, doc: doc})
	case kind == "KubeletConfiguration":
		i.kubeletFiles = append(i.kubeletFiles, object{file: name, doc: doc})
	case kind == "ConfigMap":
		i.configMap(name, doc)
		return
	case kind == "Namespace":
		i.namespace(doc)
		i.namespaceObjects++
		return
	case kind == "" && at(doc, "kubeletconfig") != nil: // output of the kubelet's /configz
		i.kubeletFiles = append(i.kubeletFiles, object{file: name, keys: "kubeletconfig.", doc: at(doc, "kubeletconfig")})
	case kind == "" && len(pairs(at(doc, "kubelet"))) > 0: // MicroShift's configuration
		i.kubeletFiles = append(i.kubeletFiles, object{file: name, keys: "kubelet.", doc: at(doc, "kubelet")})
	case kind == "" && at(doc, "kubelet-arg") != nil: // the configuration of k3s and RKE2
		i.kubeletFiles = append(i.kubeletFiles, object{file: name, keys: "kubelet-arg.", doc: i.kubeletArguments(name, at(doc, "kubelet-arg"))})
	case kind == "" && at(doc, "pools") != nil:
		i.pooled = append(i.pooled, object{file: name, name: name, about: selectorText(doc), doc: doc})
	case kind == "" && at(doc, "shared_cpus") != nil:
		i.mixedFile(name, data)
	case doc.Kind == yaml.ScalarNode && strings.Contains(doc.Value, "nohz_full="):
		i.kernelArguments(name, doc.Value)
	case kind == "" && isPinning(doc):
		i.pinning(name, data, i.o.Reading)
	default:
		remedy := ""
		if meant := spelling.Near(kind, []string{"BalloonsPolicy", "TopologyAwarePolicy", "PerformanceProfile", "KubeletConfiguration", "KubeletConfig", "MachineConfig", "ConfigMap", "Namespace"}); meant != "" {
			i.fail("%s: kind %q is unknown; did you mean %s?", name, shorten(kind), meant)
			return
		}
		if at(doc, "variant") != nil {
			remedy = "if it is a Butane file, give what butane makes of it"
		}
		i.skip(name, label, remedy)
		return
	}
	i.o.Coverage.Read(label)
}

// list takes the objects of a List. No List has others in it, and one of YAML's that is an
// alias of a list around it would have no end.
func (i *importer) list(name string, doc *yaml.Node) {
	for n, item := range items(at(doc, "items")) {
		item, source := target(item), fmt.Sprintf("%s: items[%d]", name, n)
		if kind, _ := text(item, "kind"); isList(kind, item) {
			i.fail("%s: is a %s in a List, which Kubernetes does not have; move its items up, or give it as a file", source, shorten(kind))
			return
		}
		i.document(source, item, nil)
	}
}

func isList(kind string, doc *yaml.Node) bool {
	return kind == "List" || strings.HasSuffix(kind, "List") && at(doc, "items") != nil
}

// isPinning reports whether a document has the form of a pinning file.
func isPinning(doc *yaml.Node) bool {
	return slices.ContainsFunc(pairs(doc), func(p pair) bool { return at(p.value, "cpuset") != nil })
}

func (i *importer) configMap(name string, doc *yaml.Node) {
	all, err := poolConfigs(name, doc)
	if err != nil {
		i.errs = append(i.errs, err)
		return
	}
	i.pooled = append(i.pooled, all...)
	read := len(all) > 0
	for _, key := range []string{"config", "kubelet", "tuning"} { // HyperShift's, kubeadm's, HyperShift's
		if data, ok := text(doc, "data", key); ok {
			i.file(File{name + ": data." + key, []byte(data)})
			read = true
		}
	}
	if !read {
		i.o.Coverage.Skip("ConfigMap", name)
		i.note(name, "is a ConfigMap without poolconfig-*.yaml, config, kubelet or tuning, and nothing that is read here", "")
	}
	if len(all) > 0 {
		i.o.Coverage.Read("ConfigMap")
	}
}
