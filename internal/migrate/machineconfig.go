package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const crioDir = "/etc/crio/"

// maxFile bounds what is read of a file, and what one in an archive may become.
const maxFile = 1 << 20

// maxInside bounds what all files inside of others have together: YAML can name one a
// thousand times.
const maxInside = 8 * maxFile

// machineConfig are the files that matter of a MachineConfig
// (machineconfiguration.openshift.io/v1), which are those of Ignition; and its kernel
// arguments are taken.
func (f *facts) machineConfig(file string, doc *yaml.Node) (inside []File) {
	for _, argument := range items(at(doc, "spec", "kernelArguments")) {
		f.kernelArguments(file+": spec.kernelArguments", target(argument).Value)
	}
	for _, n := range items(at(doc, "spec", "config", "storage", "files")) {
		name, ok := text(n, "path")
		if !ok || name != PinningFile && name != MixedFile && !strings.HasPrefix(name, crioDir) {
			continue
		}
		source, _ := text(n, "contents", "source")
		compression, _ := text(n, "contents", "compression")
		data, err := content(source, compression)
		if err != nil {
			f.fail("%s: %s: %w", file, name, err)
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

// kernelArguments takes nohz_full=, the list of CPUs for which a kernel is configured.
func (f *facts) kernelArguments(source, line string) {
	for argument := range strings.FieldsSeq(line) {
		if list, ok := strings.CutPrefix(argument, "nohz_full="); ok {
			if set := f.cpus(source+": nohz_full", list); !set.IsEmpty() {
				f.say(keyBoot, set.String(), source+": nohz_full")
			}
		}
	}
}

// content is that of a file in Ignition's form: a data URL (RFC 2397), which may be
// compressed.
func content(source, compression string) ([]byte, error) {
	rest, ok := strings.CutPrefix(source, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if source != "" && (!ok || !comma) {
		return nil, fmt.Errorf("contents.source %q is not a data URL: %w; only what is in the file itself can be read", shorten(source), ErrSyntax)
	}
	data, err := unescape(body)
	if err == nil && strings.HasSuffix(head, ";base64") {
		data, err = base64.StdEncoding.DecodeString(string(data))
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

// unescape replaces %XX.
func unescape(s string) ([]byte, error) {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return nil, errors.New("a % without two hex digits")
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return nil, errors.New("a % without two hex digits")
		}
		b = append(b, byte(v))
		i += 2
	}
	return b, nil
}
