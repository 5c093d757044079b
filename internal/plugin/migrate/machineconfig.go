package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const crioDir = "/etc/crio/"

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
	if arguments := at(doc, "spec", "kernelArguments"); arguments != nil && arguments.Kind != yaml.SequenceNode {
		f.fail("%s: spec.kernelArguments: is not a list; write one", file)
	}
	for _, argument := range items(at(doc, "spec", "kernelArguments")) {
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
	switch dir := path.Dir(name); {
	case name == PinningFile, name == MixedFile, strings.HasPrefix(name, crioDir):
		return true
	default:
		return name == "/etc/kubernetes/kubelet.conf" || path.Ext(dir) == ".d" && strings.HasPrefix(path.Base(dir), "kubelet") && path.Ext(name) == ".conf"
	}
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
