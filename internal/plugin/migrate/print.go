package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

type printed struct{ strings.Builder }

// line adds a line with a value, and with where the value comes from. The format has a verb for the value.
func (b *printed) line(format string, s statement) {
	fmt.Fprintf(b, format+" # %s\n", s.value, layout.Printable(s.source))
}

// print writes the configuration, each key with where it comes from.
func (i *importer) print() []byte {
	var b printed
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\n", config.APIVersion, config.Kind)
	i.printPartitions(&b)
	i.printKey(&b, "infraContainers: %q", keyInfra)
	i.printKey(&b, "shared:\n  cpus: %q", keyShared)
	var guaranteed printed
	i.printGuaranteed(&guaranteed)
	if guaranteed.Len() > 0 {
		b.WriteString("guaranteed:\n" + guaranteed.String())
	}
	if i.said[keyDomain].value != "workload.openshift.io" {
		i.printKey(&b, "annotationDomain: %q", keyDomain)
	}
	i.printKey(&b, "power: %s", keyPower)
	i.printKey(&b, "interrupts:\n  away: %s", keyAway)
	return []byte(b.String())
}

// printKey writes the lines of a key if there is a statement about it.
func (i *importer) printKey(b *printed, format, key string) {
	if s, ok := i.said[key]; ok {
		b.line(format, s)
	}
}

func (i *importer) printPartitions(b *printed) {
	title := "partitions:\n"
	for typ, s := range i.partitions() {
		b.WriteString(title)
		title = ""
		fmt.Fprintf(b, "- type: %q\n", typ)
		b.line("  cpus: %q", s)
		spaces := i.namespaces(i.permitted[typ], func(annotations map[string]string) bool {
			names := workload.Names{Domain: i.said[keyDomain].value}
			allowed, _ := names.Allowed(annotations, typ)
			return allowed
		})
		if len(spaces) > 0 {
			fmt.Fprintf(b, "  namespaces: [%s]\n", strings.Join(spaces, ", "))
			continue
		}
		i.note("partitions."+typ, "these files do not name the namespaces with permission, so that only static pods may ask for it",
			"name namespaces with --namespace, give annotated Namespace objects too, or write namespacePermission: annotation")
	}
}

// namespaces returns permitted, the namespaces whose annotations allow a request, and the flags' namespaces, sorted.
func (i *importer) namespaces(permitted []string, allow func(annotations map[string]string) bool) []string {
	all := slices.Concat(permitted, i.o.Namespaces)
	for name, annotations := range i.annotations {
		if allow(annotations) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for n, name := range all {
		all[n] = strconv.Quote(name)
	}
	return all
}

func (i *importer) printGuaranteed(b *printed) {
	g, said := i.said[keyGuaranteed]
	switch {
	case said && g.value == fromShared:
		b.line("  from: %s", g)
		i.printKey(b, "  floor: %s", keyFloor)
	case said:
		b.line("  cpus: %q", g)
	}
	i.printOptions(b)
	i.printKey(b, "  memory: %s", keyMemory)
	i.printMixed(b)
	i.printKey(b, "  claims:\n    cpus: %q", keyClaims)
}

// printOptions prints the options that differ from the defaults.
func (i *importer) printOptions(b *printed) {
	title := "  options:\n"
	for _, key := range slices.Sorted(maps.Keys(i.said)) {
		name, is := strings.CutPrefix(key, keyOptions)
		s := i.said[key]
		usual := "false"
		if name == "topology-policy" {
			usual = "best-effort"
		}
		if !is || s.value == usual && name != "strict-cpu-reservation" {
			continue
		}
		b.WriteString(title)
		title = ""
		b.line("    "+name+": %q", s)
	}
}

func (i *importer) printMixed(b *printed) {
	s, ok := i.said[keyMixed]
	if !ok {
		return
	}
	spaces := i.namespaces(nil, func(annotations map[string]string) bool {
		_, allowed := annotations["workload.mixedcpus.openshift.io/allowed"]
		return allowed
	})
	if _, exclusive := i.said[keyGuaranteed]; !exclusive {
		i.note(s.source, "CPUs "+s.value+" for mixed containers are left out: these files give no container exclusive CPUs", "write guaranteed.from or guaranteed.cpus, and guaranteed.mixed")
		return
	}
	if len(spaces) == 0 {
		i.note(s.source, "CPUs "+s.value+" for mixed containers are left out: these files do not name the namespaces with permission",
			"name namespaces with --namespace, or give annotated Namespace objects too")
		return
	}
	b.line("  mixed:\n    cpus: %q", s)
	fmt.Fprintf(b, "    namespaces: [%s]\n", strings.Join(spaces, ", "))
}
