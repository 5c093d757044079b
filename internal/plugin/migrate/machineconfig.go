package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxFile is the maximum size of a file in bytes, also after decompression.
const maxFile = 1 << 20

// maxList bounds a file: MachineConfigs of a cluster in a list are some MiB.
const maxList = 16 << 20

// maxInside bounds what all files inside of others have together: YAML can name one a
// thousand times.
const maxInside = 8 * maxFile

// machineConfig returns the files about pools in a MachineConfig
// (machineconfiguration.openshift.io/v1), in the form of Ignition. It adds statements from
// the kernel arguments.
func (f *facts) machineConfig(file string, doc *yaml.Node) (inside []File) {
	for _, argument := range f.list(file+": spec.kernelArguments", at(doc, "spec", "kernelArguments"), "") {
		f.kernelArguments(file+": spec.kernelArguments", target(argument).Value)
	}
	for _, n := range items(at(doc, "spec", "config", "storage", "files")) {
		name, ok := text(n, "path")
		if ok && strings.HasPrefix(name, "/etc/systemd/system.conf") {
			f.note(file+": "+name, "CPUAffinity and what else is in it is systemd's", "keep it; kubectl cpupool render --format systemd prints one for the pools")
		}
		if !ok || !isRead(name) {
			continue
		}
		source, _ := text(n, "contents", "source")
		compression, _ := text(n, "contents", "compression")
		data, err := content(source, compression)
		if err != nil {
			f.fail("%s: %s: %w", file, name, err)
			continue
		}
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(data))); err == nil && len(decoded) > 0 && !strings.Contains(source, ";base64,") {
			f.fail("%s: %s: contents.source is base64, and does not declare it: a node has the encoded text in the file; write data:;base64,", file, name)
			continue
		}
		if f.inside += len(data); f.inside > maxInside {
			f.fail("%s: %s: the files in MachineConfigs have more than %d bytes; give fewer of them", file, name, maxInside)
			return nil
		}
		inside = append(inside, File{file + ": " + name, data})
	}
	return inside
}

// isRead reports whether a file of a node can be about pools.
func isRead(name string) bool {
	dir := path.Dir(name)
	return slices.Contains([]string{PinningFile, MixedFile, "/etc/kubernetes/kubelet.conf"}, name) || strings.HasPrefix(name, "/etc/crio/") ||
		path.Ext(dir) == ".d" && strings.HasPrefix(path.Base(dir), "kubelet") && path.Ext(name) == ".conf"
}

// kernelArguments takes nohz_full=, the list of CPUs for which a kernel is configured.
func (f *facts) kernelArguments(source, line string) {
	for argument := range strings.FieldsSeq(line) {
		name, list, _ := strings.Cut(argument, "=")
		switch name {
		case "nohz_full":
			f.bootList(source+": nohz_full", list)
		case "isolcpus", "irqaffinity", "systemd.cpu_affinity", "rcu_nocbs", "nohz", "kthread_cpus":
			f.note(source+": "+shorten(argument), "is an argument for the whole machine, from its boot on", "keep it if it agrees with what kubectl cpupool render --format kernel prints")
		}
	}
}

// bootList takes a list of nohz_full=. The kernel has more forms of lists, of which N, its
// last CPU, is understood where the machine is known.
func (f *facts) bootList(source, list string) {
	if !f.present.IsEmpty() {
		list = strings.ReplaceAll(list, "N", strconv.Itoa(f.present.Last()))
	}
	set, err := parseCPUs(list, f.present)
	switch {
	case err != nil:
		f.note(source, "does not set the guaranteed pool: "+err.Error(), "")
	case !set.IsEmpty():
		f.say(keyBoot, set.String(), source)
	}
}

// content returns the content of a file in Ignition's form: a data URL (RFC 2397), which
// may be compressed.
func content(source, compression string) ([]byte, error) {
	rest, ok := strings.CutPrefix(source, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if source != "" && (!ok || !comma) {
		return nil, fmt.Errorf("contents.source %q is not a data URL: %w; only what is in the file itself can be read", shorten(source), ErrSyntax)
	}
	text, err := url.PathUnescape(body)
	data := []byte(text)
	if err == nil && strings.HasSuffix(head, ";base64") {
		data, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, fmt.Errorf("contents.source: %w: %w", ErrSyntax, err)
	}
	switch compression {
	case "":
	case "gzip":
		if data, err = gunzip(data); err != nil {
			return nil, fmt.Errorf("contents: %w: %w", ErrSyntax, err)
		}
	default:
		return nil, fmt.Errorf("contents.compression %q is not known: %w", shorten(compression), ErrSyntax)
	}
	return data, nil
}

func gunzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	data, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	return data, err
}

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
	types := slices.Sorted(maps.Keys(sets))
	if reading == Documents {
		if err != nil {
			f.fail("%s: %w", file, err)
		}
		for _, typ := range types {
			f.say(partitionKey(typ), listOrAll(sets[typ]), file+": "+typ)
		}
		return
	}
	if err != nil {
		f.note(file, "its content is not understood, and does not count: today's kubelet looks only whether the file is there ("+err.Error()+")", "")
	}
	// A node with this file has management pods. They run on all CPUs unless another file pins them.
	f.afterwards = append(f.afterwards, func() {
		if !f.managed() {
			f.say(partitionKey("management"), allCPUs, file)
		}
	})
	for _, typ := range types {
		if !sets[typ].IsEmpty() {
			f.pinned(typ, sets[typ], file)
		}
	}
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
