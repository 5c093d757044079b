package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PinningFile is where the kubelet of OpenShift looks whether workloads are pinned.
const PinningFile = "/etc/kubernetes/openshift-workload-pinning"

// ParsePinning parses a pinning file: an object of workload types, each with a cpuset, as
// in {"management":{"cpuset":"0-1,52-53"}}. An empty cpuset, which the installer writes
// before there is any other, is an empty set. A list may name CPUs of present alone,
// unless that is empty.
func ParsePinning(data []byte, present cpuset.Set) (map[string]cpuset.Set, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("%w: it is not JSON", ErrSyntax)
	}
	docs, err := documents(data)
	switch {
	case err != nil:
		return nil, err
	case len(docs) != 1 || docs[0].Kind != yaml.MappingNode:
		return nil, ErrNotObject
	}
	sets := map[string]cpuset.Set{}
	for _, p := range pairs(docs[0]) {
		if !isLabel(p.key) {
			return nil, fmt.Errorf("%q %w", shorten(p.key), ErrType)
		}
		if p.value.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s: %w", p.key, ErrNotObject)
		}
		for _, inside := range pairs(p.value) {
			if inside.key != "cpuset" {
				return nil, fmt.Errorf("%s.%s: %w: there is no such key; write cpuset", p.key, shorten(inside.key), ErrSyntax)
			}
		}
		switch list := at(p.value, "cpuset"); {
		case list == nil:
			return nil, fmt.Errorf("%s.cpuset %w; write a list such as 0-3,8", p.key, ErrRequired)
		case list.Tag != "!!str":
			return nil, fmt.Errorf("%s.cpuset %w; write a list such as \"0-3,8\"", p.key, ErrNotString)
		default:
			if sets[p.key], err = parseCPUs(list.Value, present); err != nil {
				return nil, fmt.Errorf("%s.cpuset: %w", p.key, err)
			}
		}
	}
	return sets, nil
}

// MixedFile is the path of a file of OpenShift's kubelet. It decides whether containers may
// have exclusive and shared CPUs.
const MixedFile = "/etc/kubernetes/openshift-workload-mixed-cpus"

// ParseMixed returns how many containers a mixed CPUs file lets a node take; without the
// key it is 0. If that kubelet cannot decode the file, mixed CPUs are off, as without the
// file (openshift/kubernetes, pkg/kubelet/sharedcpus).
func ParseMixed(data []byte) (containers int, err error) {
	var file struct {
		Shared struct {
			Limit int `json:"containers_limit"`
		} `json:"shared_cpus"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return file.Shared.Limit, nil
}

// mixedFile adds a note about a mixed CPUs file, which has no equivalent key.
func (i *importer) mixedFile(name string, data []byte) {
	limit, err := ParseMixed(data)
	if err != nil {
		i.note(name, "mixed CPUs are off by it: the kubelet does not take it ("+err.Error()+")", "leave guaranteed.mixed out to have it so")
		return
	}
	i.note(name, fmt.Sprintf("the number of containers with mixed CPUs, %d by this file, is not limited here", limit), "guaranteed.mixed.namespaces lists the permitted namespaces")
}

// isLabel reports whether s is a DNS label (RFC 1123), as workload types are.
func isLabel(s string) bool {
	return len(validation.IsDNS1123Label(s)) == 0
}

// pinning takes the pools of a pinning file, if its content counts.
func (f *facts) pinning(file string, data []byte, reading Reading) {
	f.partitioned = true
	sets, err := ParsePinning(data, f.present)
	if err != nil && reading == Implementation {
		f.note(file, "its content is not understood, and does not count: today's kubelet looks only whether the file is there ("+err.Error()+")", "")
		f.switchedOn(file)
		return
	}
	if err != nil {
		f.fail("%s: %w", file, err)
		return
	}
	if reading == Implementation {
		f.switchedOn(file)
	}
	for _, typ := range slices.Sorted(maps.Keys(sets)) {
		set := sets[typ]
		switch {
		case reading == Documents:
			f.say(partitionKey(typ), listOrAll(set), file+": "+typ)
		case !set.IsEmpty():
			f.pinned(typ, set, file)
		}
	}
}

// switchedOn adds a management pool: a node with this file has management pods. They run on
// all CPUs unless another file pins them.
func (f *facts) switchedOn(file string) {
	f.afterwards = append(f.afterwards, func() {
		if !f.managed() {
			f.say(partitionKey("management"), allCPUs, file)
		}
	})
}

// pinned adds a note about the content of a file that has no effect.
func (f *facts) pinned(typ string, set cpuset.Set, file string) {
	f.afterwards = append(f.afterwards, func() {
		now, said := f.said[partitionKey(typ)]
		if said && now.value == set.String() {
			return
		}
		reason := fmt.Sprintf("its content, CPUs %s for %s, does not count: today's kubelet looks only whether the file is there, and CRI-O's configuration pins", set, typ)
		f.note(file+": "+typ, reason, "give CRI-O's drop-in or the PerformanceProfile too, or --reading documents, by which it counts")
	})
}

func listOrAll(set cpuset.Set) string {
	if set.IsEmpty() {
		return allCPUs
	}
	return set.String()
}
