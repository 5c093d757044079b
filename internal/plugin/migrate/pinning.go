package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PinningFile is where the kubelet of OpenShift looks whether workloads are pinned.
const PinningFile = "/etc/kubernetes/openshift-workload-pinning"

// ParsePinning parses a pinning file: an object of workload types, each with a cpuset, as
// in {"management":{"cpuset":"0-1,52-53"}}. An empty cpuset, which the installer writes
// before there is any other, is an empty set. A list may name CPUs of present alone,
// unless that is empty.
func ParsePinning(data []byte, present cpuset.Set) (map[string]cpuset.Set, error) {
	types, err := members(data)
	if err != nil {
		return nil, err
	}
	sets := map[string]cpuset.Set{}
	for _, typ := range slices.Sorted(maps.Keys(types)) {
		if !isLabel(typ) {
			return nil, fmt.Errorf("%q %w", shorten(typ), ErrType)
		}
		keys, err := members(types[typ])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", typ, err)
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if key != "cpuset" {
				return nil, fmt.Errorf("%s.%s: %w: there is no such key; write cpuset", typ, shorten(key), ErrSyntax)
			}
		}
		if keys["cpuset"] == nil {
			return nil, fmt.Errorf("%s.cpuset %w; write a list such as 0-3,8", typ, ErrRequired)
		}
		var list *string
		if err := json.Unmarshal(keys["cpuset"], &list); err != nil || list == nil {
			return nil, fmt.Errorf("%s.cpuset %w; write a list such as \"0-3,8\"", typ, ErrNotString)
		}
		if sets[typ], err = parseCPUs(*list, present); err != nil {
			return nil, fmt.Errorf("%s.cpuset: %w", typ, err)
		}
	}
	return sets, nil
}

// MixedFile is where the kubelet of OpenShift looks whether containers may have shared CPUs
// beside their own.
const MixedFile = "/etc/kubernetes/openshift-workload-mixed-cpus"

// ParseMixed returns how many containers a mixed CPUs file lets a node take; without the
// key it is 0. What that kubelet cannot decode switches mixed CPUs off, as if the file were
// not there (openshift/kubernetes, pkg/kubelet/sharedcpus).
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

// mixedFile says what becomes of a mixed CPUs file, which no key stands for.
func (i *importer) mixedFile(name string, data []byte) {
	limit, err := ParseMixed(data)
	if err != nil {
		i.note(name, "mixed CPUs are off by it: the kubelet does not take it ("+err.Error()+")", "leave guaranteed.mixed out to have it so")
		return
	}
	i.note(name, fmt.Sprintf("how many containers a node takes with mixed CPUs, %d by this file, is not limited here", limit), "guaranteed.mixed.namespaces says whose they may be")
}

// members decodes a JSON object and refuses keys that are there twice.
func members(data []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("%w: it is not JSON", ErrSyntax)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, ErrNotObject
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, ErrSyntax
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %s: %w", ErrSyntax, shorten(key), err)
		}
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("%q %w", shorten(key), ErrDuplicate)
		}
		all[key] = value
	}
	return all, nil
}

// isLabel says that s is a DNS label (RFC 1123), as workload types are.
func isLabel(s string) bool {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`).MatchString(s)
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

// switchedOn: that the file is there makes a node one with management pods, which run
// everywhere unless somebody else pins them.
func (f *facts) switchedOn(file string) {
	f.afterwards = append(f.afterwards, func() {
		if !f.managed() {
			f.say(partitionKey("management"), allCPUs, file)
		}
	})
}

// pinned is what the content of a file would say that does not count.
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
