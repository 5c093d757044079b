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

// line adds a key, with where its value comes from.
func (b *printed) line(indent int, key, value, source string) {
	fmt.Fprintf(b, "%s%s: %s", strings.Repeat(" ", indent), key, value)
	if source != "" {
		fmt.Fprintf(b, " # %s", layout.Printable(source))
	}
	b.WriteByte('\n')
}

// print writes the configuration, each key with where it comes from.
func (i *importer) print() []byte {
	var b printed
	b.line(0, "apiVersion", config.APIVersion, "")
	b.line(0, "kind", config.Kind, "")
	i.printPartitions(&b)
	if s, ok := i.said[keyInfra]; ok {
		b.line(0, "infraContainers", strconv.Quote(s.value), s.source)
	}
	if s, ok := i.said[keyShared]; ok {
		b.WriteString("shared:\n")
		b.line(2, "cpus", strconv.Quote(s.value), s.source)
	}
	var guaranteed printed
	i.printGuaranteed(&guaranteed)
	if guaranteed.Len() > 0 {
		b.WriteString("guaranteed:\n" + guaranteed.String())
	}
	if s, ok := i.said[keyDomain]; ok && s.value != "workload.openshift.io" {
		b.line(0, keyDomain, strconv.Quote(s.value), s.source)
	}
	if s, ok := i.said[keyPower]; ok {
		b.line(0, keyPower, s.value, s.source)
	}
	if s, ok := i.said[keyAway]; ok {
		b.WriteString("interrupts:\n")
		b.line(2, "away", s.value, s.source)
	}
	return []byte(b.String())
}

func (i *importer) printPartitions(b *printed) {
	title := "partitions:\n"
	for typ, s := range i.partitions() {
		b.WriteString(title)
		title = ""
		fmt.Fprintf(b, "- type: %q\n", typ)
		b.line(2, "cpus", strconv.Quote(s.value), s.source)
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
		b.line(2, "from", fromShared, g.source)
		if floor, ok := i.said[keyFloor]; ok {
			b.line(2, "floor", floor.value, floor.source)
		}
	case said:
		b.line(2, "cpus", strconv.Quote(g.value), g.source)
	}
	i.printOptions(b)
	if memory, ok := i.said[keyMemory]; ok {
		b.line(2, "memory", memory.value, memory.source)
	}
	i.printMixed(b)
	if claims, ok := i.said[keyClaims]; ok {
		b.WriteString("  claims:\n")
		b.line(4, "cpus", strconv.Quote(claims.value), claims.source)
	}
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
		b.line(4, name, strconv.Quote(s.value), s.source)
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
	b.WriteString("  mixed:\n")
	b.line(4, "cpus", strconv.Quote(s.value), s.source)
	fmt.Fprintf(b, "    namespaces: [%s]\n", strings.Join(spaces, ", "))
}
