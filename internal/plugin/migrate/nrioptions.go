package migrate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// nriOptions are keys of a balloon type with the options that mean the same for exclusive CPUs. An
// empty value takes the text of the key.
func nriOptions() map[string][]pairOfTexts {
	return map[string][]pairOfTexts{
		"preferSpreadOnPhysicalCores": {{"distribute-cpus-across-cores", "true"}},
		"hideHyperthreads":            {{"one-owner-per-core", "true"}, {"distribute-cpus-across-cores", "true"}},
		"preferIsolCpus":              {{"isolated-cpus", "prefer"}},
		"preferCoreType":              {{"core-type", ""}},
		"pinMemory":                   {{keyMemory, "bind"}},
	}
}

type pairOfTexts struct{ key, value string }

// typeOptions collects the options of an exclusive balloon type. The keys of the policy itself are
// the defaults of its types.
func (p *nri) typeOptions(source string, typ *yaml.Node) {
	if p.chosen == nil {
		p.chosen = map[string][]statement{}
	}
	values := map[string]statement{}
	for key, options := range nriOptions() {
		n, from := at(typ, key), source
		if n == nil {
			n, from = at(p.spec, key), p.source
		}
		from += "." + key
		coreType, _ := text(n)
		if key != "preferCoreType" {
			on, there := p.flag(from, n)
			if !on && (there || key != "pinMemory") { // the plugin's default of pinMemory is true
				continue
			}
		}
		for _, option := range options {
			value := option.value
			if option.key == "core-type" {
				types := map[string]string{"": "", "performance": "prefer-performance", "efficient": "prefer-efficiency"}
				known := false
				if value, known = types[coreType]; !known {
					p.fail("%s: %q is neither performance nor efficient; write one", from, shorten(coreType))
				}
			}
			if value != "" {
				values[option.key] = statement{value, from}
			}
		}
	}
	for _, option := range []string{"distribute-cpus-across-cores", "one-owner-per-core", "isolated-cpus", "core-type", keyMemory} {
		p.chosen[option] = append(p.chosen[option], values[option])
	}
}

// choose takes the options in which all exclusive balloon types agree, since there is one
// guaranteed pool. A TopologyAwarePolicy has the key pinMemory alone.
func (p *nri) choose() {
	if p.exclusive && p.chosen == nil {
		source := p.source + ".pinMemory"
		if on, there := p.flag(source, at(p.spec, "pinMemory")); on || !there {
			p.chosen = map[string][]statement{keyMemory: {{"bind", source}}}
		}
	}
	for _, option := range slices.Sorted(maps.Keys(p.chosen)) {
		all := p.chosen[option]
		first := slices.MaxFunc(all, func(a, b statement) int { return cmp.Compare(a.value, b.value) }) // an empty value is the least
		differs := slices.ContainsFunc(all, func(s statement) bool { return s.value != first.value })
		name := strings.TrimPrefix(option, "guaranteed.")
		switch {
		case first.value == "":
		case differs:
			p.note(first.source, name+": "+first.value+" does not apply to all exclusive balloon types, and there is one guaranteed pool",
				"let pods choose with guaranteed.overrides, where an option can be overridden")
		case option == keyMemory:
			p.say(keyMemory, first.value, first.source)
			p.note(first.source, "binds the memory of exclusive containers; memory of other containers follows no pool here", "")
		default:
			p.say(keyOptions+option, first.value, first.source)
		}
	}
	if s, there := p.said[keyOptions+"one-owner-per-core"]; there && p.exclusive {
		p.note(s.source, "a container has one thread of each core, as many as it requests; the plugin gives it half of the threads that it requests", "lower the requests of pods")
	}
}

// described returns the value of a key, as the beginning of a note.
func described(n *yaml.Node) string {
	text := n.Value
	if n.Kind != yaml.ScalarNode {
		line := *n
		line.Style = yaml.FlowStyle
		line.HeadComment, line.LineComment, line.FootComment = "", "", ""
		b, err := yaml.Marshal(&line)
		if err != nil {
			return ""
		}
		text = string(b)
	}
	return shorten(strings.Join(strings.Fields(text), " ")) + ": "
}

// isOff reports whether a key has no effect: null, false, 0 or an empty text.
func isOff(n *yaml.Node) bool {
	return n.Tag == "!!null" || n.Kind == yaml.ScalarNode && slices.Contains([]string{"false", "0", ""}, n.Value)
}
