package preflight_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// archive describes a host as files by name. "host/..." are files of the host, "config" is the
// configuration, and "links" has lines "NAME: TARGET" of symbolic links. The other files hold the answers of the runtime, systemd and the kernel.
type archive map[string]string

func readArchive(t testing.TB, name string) archive {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	a := make(archive)
	for _, f := range ar.Files {
		if _, ok := a[f.Name]; ok {
			t.Fatalf("%s: two files %s", name, f.Name)
		}
		a[f.Name] = string(f.Data)
	}
	return a
}

// changed returns a copy of the archive. The files of change replace files of the archive, and
// the files that change lists in "remove" are removed.
func (a archive) changed(t testing.TB, change archive) archive {
	t.Helper()
	result := maps.Clone(a)
	for name := range strings.FieldsSeq(change["remove"]) {
		found := false
		for have := range a {
			if have == name || strings.HasPrefix(have, name+"/") {
				delete(result, have)
				found = true
			}
		}
		if !found {
			t.Fatalf("remove %s: the host has no such file", name)
		}
	}
	maps.Copy(result, change)
	return result
}

func (a archive) configuration() preflight.Configuration {
	const file = "/etc/cpupoold/config.yaml"
	c, err := config.Parse([]byte(a["config"]), file, config.Overrides{}, nil)
	return preflight.Configuration{File: file, Config: c, Err: err}
}

func (a archive) root() fs.FS {
	root := make(fstest.MapFS)
	for name, data := range a {
		name, ok := strings.CutPrefix(name, "host/")
		if !ok {
			continue
		}
		if path.Base(name) == "cmdline" { // one argument per line
			data = strings.ReplaceAll(data, "\n", "\x00")
		}
		root[name] = &fstest.MapFile{Data: []byte(data), Mode: 0o644}
	}
	// The kubelet uses the runtime, unless its command line names another one.
	const kubelet = "proc/512/cmdline"
	if endpoint := values(a["runtime"])["endpoint"]; root[kubelet] != nil && endpoint != "" && !strings.Contains(string(root[kubelet].Data), "endpoint") {
		root[kubelet].Data = append(root[kubelet].Data, "--container-runtime-endpoint="+endpoint+"\x00"...)
	}
	for name, target := range values(a["links"]) {
		root[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	}
	return root
}

func (a archive) host() preflight.Host {
	runtime := values(a["runtime"])
	return preflight.Host{
		Root: a.root(),
		FindRuntime: func(context.Context) (string, error) {
			return runtime["endpoint"], failure(runtime["find-error"])
		},
		DialRuntime: func(endpoint string) (preflight.Runtime, error) {
			if endpoint != runtime["endpoint"] {
				return nil, fs.ErrNotExist
			}
			return describedRuntime(runtime), nil
		},
		SystemdVersion: func(context.Context) (int, error) {
			systemd := values(a["systemd"])
			version, _ := strconv.Atoi(systemd["version"])
			return version, failure(systemd["error"])
		},
		Units: func(_ context.Context, names []string) []preflight.UnitAnswer {
			all := make([]preflight.UnitAnswer, len(names))
			for i, name := range names {
				all[i].Unit, all[i].Err = a.unit(name)
			}
			return all
		},
		Writable: func(dir string) error { return failure(values(a["read-only"])[dir]) },
		LockHolder: func(file string) (int, error) {
			lock := values(a["lock"])
			if lock["file"] != file {
				return 0, nil
			}
			pid, _ := strconv.Atoi(lock["pid"])
			return pid, failure(lock["error"])
		},
		Claims: func(*config.Config) []string { return strings.Fields(a["claims"]) },
		Changes: func(context.Context) ([]string, error) {
			if reason, ok := strings.CutPrefix(a["changes"], "error: "); ok {
				return nil, errors.New(strings.TrimSpace(reason))
			}
			return strings.FieldsFunc(a["changes"], func(c rune) bool { return c == '\n' }), nil
		},
	}
}

// unit returns the unit in the file "unit/NAME". Without that file the unit is missing.
func (a archive) unit(name string) (systemd.Unit, error) {
	text, ok := a["unit/"+name]
	if !ok {
		return systemd.Unit{Name: name, Load: "not-found"}, nil
	}
	u := values(text)
	cpus, err := cpuset.Parse(u["cpus"])
	if err != nil {
		return systemd.Unit{}, err
	}
	return systemd.Unit{
		Name: cmp.Or(u["name"], name), Load: cmp.Or(u["load"], "loaded"), Active: cmp.Or(u["active"], "active"),
		Path: cgroup.Path(u["path"]), Files: strings.Fields(u["files"]),
		Partition: u["partition"],
		UnitState: cgroup.UnitState{Known: true, CPUs: cpus},
	}, failure(u["error"])
}

// describedRuntime returns the answers in the file "runtime" of an archive.
type describedRuntime map[string]string

func (r describedRuntime) Version(context.Context) (name, version string, err error) {
	return r["name"], r["version"], failure(r["version-error"])
}

func (r describedRuntime) CgroupDriver(context.Context) (cri.Driver, error) {
	if r["driver"] == "unsupported" {
		return "", cri.ErrNotSupported
	}
	return cri.Driver(r["driver"]), failure(r["driver-error"])
}

// List parses lines "pod NAMESPACE/NAME: ANNOTATION ...".
func (r describedRuntime) List(context.Context) ([]cri.Pod, []cri.Container, error) {
	var pods []cri.Pod
	for key, value := range r {
		if name, ok := strings.CutPrefix(key, "pod "); ok {
			p := cri.Pod{Annotations: make(map[string]string)}
			p.Namespace, p.Name, _ = strings.Cut(name, "/")
			for annotation := range strings.FieldsSeq(value) {
				p.Annotations[annotation] = "x"
			}
			pods = append(pods, p)
		}
	}
	return pods, nil, failure(r["list-error"])
}

func (r describedRuntime) Close() error { return nil }

// values parses lines of the form "key: value".
func values(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			m[key] = value
		}
	}
	return m
}

func failure(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
