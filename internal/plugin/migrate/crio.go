package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// crioRuntime holds the keys of [crio.runtime] that set CPUs (crio.conf(5)).
type crioRuntime struct {
	InfraCtrCPUSet *string                 `toml:"infra_ctr_cpuset"`
	SharedCPUSet   *string                 `toml:"shared_cpuset"`
	Workloads      map[string]crioWorkload `toml:"workloads"`
	Runtimes       map[string]struct {
		Allowed []string `toml:"allowed_annotations"`
	} `toml:"runtimes"`
}

type crioWorkload struct {
	Activation string         `toml:"activation_annotation"`
	Prefix     string         `toml:"annotation_prefix"`
	Allowed    []string       `toml:"allowed_annotations"`
	Resources  *crioResources `toml:"resources"`
}

// crioResources are defaults; 0 and "" are none.
type crioResources struct {
	CPUShares crioShares `toml:"cpushares"`
	CPUQuota  int64      `toml:"cpuquota"`
	CPUPeriod uint64     `toml:"cpuperiod"`
	CPUSet    string     `toml:"cpuset"`
	CPULimit  int64      `toml:"cpulimit"`
}

// crioShares are CPU shares. The enhancement writes them as a text, "" for none, as the first
// CRI-O with workloads read it (pkg/config/workloads.go, a map of texts). Today it is a number.
type crioShares struct {
	value  uint64
	isText bool
}

// UnmarshalTOML reads either form.
func (s *crioShares) UnmarshalTOML(value any) error {
	switch v := value.(type) {
	case int64:
		if v < 0 {
			return fmt.Errorf("cpushares %d is negative", v)
		}
		*s = crioShares{value: uint64(v)}
		return nil
	case string:
		s.isText = true
		if v == "" {
			return nil
		}
		var err error
		if s.value, err = strconv.ParseUint(v, 10, 63); err != nil {
			return fmt.Errorf("cpushares %q is no number of CPU shares; write 0 for none", shorten(v))
		}
		return nil
	default:
		return errors.New("cpushares is no number; write 0 for none")
	}
}

type crioFile struct {
	name    string
	runtime crioRuntime
}

// parseCRIO parses crio.conf or a drop-in. ok is true if the file is one of them, even with
// an error.
func parseCRIO(file string, data []byte) (c crioFile, ok bool, err error) {
	var top map[string]toml.Primitive
	meta, err := toml.Decode(string(data), &top)
	if err != nil {
		table := regexp.MustCompile(`(?m)^\s*\[crio(\.|\])`)
		if table.Match(data) && !isYAML(data) {
			return c, true, fmt.Errorf("%s: %w: CRI-O configuration: %w", file, ErrSyntax, err)
		}
		return c, false, nil
	}
	primitive, ok := top["crio"]
	if !ok {
		return c, false, nil
	}
	var crio struct {
		Runtime crioRuntime `toml:"runtime"`
	}
	if err := meta.PrimitiveDecode(primitive, &crio); err != nil {
		return c, true, fmt.Errorf("%s: %w: CRI-O configuration: %w", file, ErrSyntax, err)
	}
	return crioFile{file, crio.Runtime}, true, nil
}

// order returns the sort key of a file of one CRI-O: crio.conf comes first, then drop-ins
// by their names (crio.conf.d(5)).
func (c crioFile) order() string {
	if base := path.Base(object{file: c.name}.inside()); base != "crio.conf" {
		return base
	}
	return ""
}

// dir returns the key of the files that belong together: the files of one directory, and
// the crio.conf next to the directory crio.conf.d.
func (c crioFile) dir() string {
	dir := path.Dir(object{file: c.name}.inside())
	if path.Base(dir) == "crio.conf.d" {
		return path.Dir(dir)
	}
	return dir
}

// crio reads files of CRI-O. In files that belong together, a later table replaces an
// earlier one, as in CRI-O.
func (f *facts) crio(files []crioFile, reading Reading) {
	type table struct {
		source string
		crioWorkload
	}
	type place struct{ dir, key string }
	tables, sets := map[place]table{}, map[place]statement{}
	slices.SortStableFunc(files, func(a, b crioFile) int {
		return cmp.Or(cmp.Compare(a.dir(), b.dir()), cmp.Compare(a.order(), b.order()))
	})
	for _, file := range files {
		dir := file.dir()
		for _, name := range slices.Sorted(maps.Keys(file.runtime.Runtimes)) {
			if len(file.runtime.Runtimes[name].Allowed) > 0 {
				f.allowedAnnotations(file.name + ": crio.runtime.runtimes." + name)
			}
		}
		for name, w := range file.runtime.Workloads {
			source := file.name + ": crio.runtime.workloads." + name
			if reading == Implementation && w.Resources != nil && w.Resources.CPUShares.isText {
				f.fail("%s.resources.cpushares is a text: today's CRI-O does not start with it; write 0, or give --reading documents, by which it is the enhancement's", source)
			}
			tables[place{dir, name}] = table{source, w}
		}
		for key, set := range map[string]*string{"infra_ctr_cpuset": file.runtime.InfraCtrCPUSet, "shared_cpuset": file.runtime.SharedCPUSet} {
			if set != nil {
				sets[place{dir, key}] = statement{*set, file.name + ": crio.runtime." + key}
			}
		}
	}
	order := func(a, b place) int { return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.key, b.key)) }
	for _, at := range slices.SortedFunc(maps.Keys(tables), order) {
		f.crioWorkload(tables[at].source, tables[at].crioWorkload, reading)
	}
	for _, at := range slices.SortedFunc(maps.Keys(sets), order) {
		s := sets[at]
		set := f.cpus(s.source, s.value)
		if set.IsEmpty() {
			continue
		}
		f.say(map[string]string{"infra_ctr_cpuset": keyInfra, "shared_cpuset": keyMixed}[at.key], set.String(), s.source)
	}
}

func (f *facts) allowedAnnotations(source string) {
	f.note(source+".allowed_annotations", "other keys of cpupoold decide the annotations that pods may have", "see guaranteed.overrides, guaranteed.isolation, guaranteed.mixed, interrupts and power")
}

// isYAML reports whether a file is a mapping of YAML, which may hold CRI-O's configuration as a text.
func isYAML(data []byte) bool {
	docs, err := documents(data)
	return err == nil && len(docs) > 0 && docs[0].Kind == yaml.MappingNode
}

// refused returns the error of CRI-O for a table at its start (pkg/config/workloads.go). It
// does not check lists of CPUs.
func (w crioWorkload) refused() error {
	switch {
	case w.Activation == "":
		return fmt.Errorf("activation_annotation %w", ErrRequired)
	case w.Resources == nil:
	case w.Resources.CPUQuota != 0 && w.Resources.CPUQuota < int64(w.Resources.CPUShares.value):
		return fmt.Errorf("cpuquota %d is less than cpushares %d", w.Resources.CPUQuota, w.Resources.CPUShares.value)
	case w.Resources.CPUPeriod != 0 && w.Resources.CPUPeriod < 1000:
		return fmt.Errorf("cpuperiod %d is less than 1000 microseconds", w.Resources.CPUPeriod)
	}
	return nil
}

// crioWorkload takes a table of workloads. The enhancement's table, by --reading documents,
// has the names of annotations in the old form.
func (f *facts) crioWorkload(source string, w crioWorkload, reading Reading) {
	if err := w.refused(); err != nil {
		f.fail("%s: %w: CRI-O does not start with it", source, err)
		return
	}
	domain, typ, ok := strings.Cut(strings.TrimPrefix(w.Activation, "target."), "/")
	ok = ok && strings.HasPrefix(w.Activation, "target.") && domain != "" && isLabel(typ)
	old := ok && w.Prefix == workload.Names{Domain: domain}.OldPrefix(typ)
	if !ok || w.Prefix != "resources."+domain && (!old || reading == Implementation) {
		remedy := "annotate these pods otherwise, or keep the table and write otherManagers.crioWorkloads: standDown"
		if old {
			remedy = "give --reading documents if the table is the enhancement's, or " + remedy
		}
		f.note(source, fmt.Sprintf("pods of a type are known by annotations target.DOMAIN/TYPE and resources.DOMAIN, and not by %q and %q", shorten(w.Activation), shorten(w.Prefix)), remedy)
		return
	}
	if old {
		f.note(source+".annotation_prefix", fmt.Sprintf("by it today's CRI-O looks for annotations %[1]s/CONTAINER; the documents, and the daemon, have %[1]s.cpushares/CONTAINER", shorten(w.Prefix)),
			"write resources."+shorten(domain)+" where today's CRI-O is to read it")
	}
	f.partitioned = true
	f.say(keyDomain, domain, source)
	if len(w.Allowed) > 0 {
		f.allowedAnnotations(source)
	}
	if w.Resources == nil {
		f.note(source, "has no resources: CRI-O places no container by it, and the pool has all CPUs", "write cpus of the partition to limit it")
		f.say(partitionKey(typ), allCPUs, source)
		return
	}
	r := *w.Resources
	if r.CPUShares.isText {
		f.note(source+".resources.cpushares", "is a text, as in the documents; today's CRI-O does not start with it", "write a number where today's CRI-O is to read it, 0 for none")
	}
	set := f.cpus(source+".resources.cpuset", r.CPUSet)
	f.say(partitionKey(typ), listOrAll(set), source)
	for _, def := range []struct {
		key   string
		value int64
	}{{"cpushares", int64(r.CPUShares.value)}, {"cpuquota", r.CPUQuota}, {"cpuperiod", int64(min(r.CPUPeriod, 1<<62))}, {"cpulimit", r.CPULimit}} {
		if def.value != 0 {
			f.note(fmt.Sprintf("%s.resources.%s", source, def.key), fmt.Sprintf("%d as a default for pods without the annotation has no key here", def.value),
				"let pods request what they need: the webhook annotates them, and the daemon weighs them by it")
		}
	}
}
