package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
)

// secrets returns names that only the operator may see.
func secrets() []string {
	return []string{"bluewhale", "bluewhale-du-0", "sidefin", "old-pod-x7", "late-pod-z9", "orcans", "krill-ns", "anchovy.service", "anchovy", `sea\x2dweed`, "edge-tuna-1", "herring", "sprat-gone", "codfish", "tuna-registry.example/fish"}
}

// secretive is a machine whose every file has some of them.
func secretive(journal error) machine {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	root := fstest.MapFS{
		"proc/version": file("Linux version 6.12\n"), "proc/cmdline": file("ro isolcpus=2-3 rd.iscsi.password=herring ip=::::edge-tuna-1:eth0\n"),
		"etc/os-release":                                              file("NAME=x\nPRETTY_NAME=\"Debian 13\"\n"),
		"sys/fs/cgroup/cpuset.cpus.effective":                         file("0-3\n"),
		"sys/fs/cgroup/system.slice/anchovy.service/cpu.weight":       file("100\n"),
		`sys/fs/cgroup/system.slice/sea\x2dweed.service/cpu.weight`:   file("100\n"),
		"sys/fs/cgroup/kubepods.slice/cri-containerd-1.scope/cpu.max": file("max 100000\n"),
	}
	return machine{
		root: root, hostname: func() (string, error) { return "edge-tuna-1.sea.example", nil },
		check: func(context.Context, preflight.Configuration) []preflight.Finding {
			return []preflight.Finding{{Check: "units", Subject: "anchovy.service", Found: "anchovy is on edge-tuna-1"}, {Check: "annotations", Subject: "pod codfish-ns/codfish (and 3 more)"}}
		},
		systemd: func(context.Context) (int, error) { return 257, nil },
		runtime: func(context.Context, string) (string, error) { return "containerd 2.1", nil },
		journal: func(context.Context) ([]byte, error) {
			return []byte(`2026-01-31T12:00:00+0000 cpupoold[7]: level=WARN msg="refused" pod=orcans/old-pod-x7 container=sidefin error="pod \"orcans/old-pod-x7\" lacks"` + "\n" +
				`2026-01-31T12:00:01+0000 cpupoold[7]: {"msg":"x","pod":"krill-ns/bluewhale-du-0","image":"tuna-registry.example/fish"}` + "\n"), journal
		},
	}
}

// pastOf is a daemon whose state has names.
type pastOf struct{ past }

func (pastOf) Status() *inspect.Status {
	return &inspect.Status{
		Version: inspect.Version, Node: "edge-tuna-1",
		Containers: []inspect.Container{
			{Namespace: "orcans", Pod: "bluewhale-du-0", PodUID: "u", Name: "bluewhale", Pool: inspect.Shared, Reason: "because of orcans/bluewhale-du-0/bluewhale"},
			{Unit: true, Name: "anchovy.service", Pool: inspect.Shared},
		},
		CPUs: []inspect.CPU{{ID: 1, Owner: "orcans/bluewhale-du-0/bluewhale"}},
	}
}

// Explain returns the later events of a container, too.
func (p pastOf) Explain(name string) (*inspect.Explanation, error) {
	s := p.Status()
	e := &inspect.Explanation{Version: inspect.Version, Asked: name}
	for _, c := range s.Containers {
		if name == c.PodUID || c.Unit && name == c.Name {
			e.Subjects = append(e.Subjects, inspect.Subject{
				Container: c, Events: []history.Event{{Kind: history.Wrote, Pod: "orcans/late-pod-z9", Container: "sidefin"}},
				Kernel: &inspect.Kernel{Cgroup: "/system.slice/anchovy.service/x", Error: "late-pod-z9 of orcans"},
			})
		}
	}
	return e, nil
}

// unpack returns the files of an archive by name, and its directory.
func unpack(t *testing.T, r io.Reader) (files map[string]string, dir string) {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	files = make(map[string]string)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, dir
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || h.Mode != 0o600 {
			t.Fatalf("%s: %v, mode = %o; want 600", h.Name, err, h.Mode)
		}
		files[path.Base(h.Name)], dir = string(text), path.Dir(h.Name)
	}
}

// reporting is an app with a configuration that names some of the secrets.
func reporting(t *testing.T, extra string) (*app, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	yaml := "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n# bluewhale lives here\npartitions:\n- type: management\n  cpus: \"0\"\n  namespaces: [krill-ns]\nhostSlices: {units: [sprat-gone.slice]}\nrunDir: " + dir + "\n" + extra
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	return &app{streams: streams{out: io.Discard, err: &errs}, configFile: file}, &errs
}

// TestReportRedacts checks that no secret is in a file of the archive or in its description.
// Each secret is replaced by the same word everywhere, and other words stay.
func TestReportRedacts(t *testing.T) {
	a, errs := reporting(t, "")
	events := history.New()
	events.Add(history.Event{Kind: history.Placed, Pod: "krill-ns/old-pod-x7", Container: "sidefin", Cause: "old-pod-x7 is old"})
	stop := serveDaemon(t, control.Socket(filepath.Dir(a.configFile)), pastOf{past{time.Unix(1700000000, 0).UTC(), events.Snapshot()}})
	defer stop()
	reach(t, control.Socket(filepath.Dir(a.configFile)))
	var out bytes.Buffer
	a.out = &out
	r := a.gatherReport(t.Context(), secretive(errors.New("journalctl has failed on edge-tuna-1")))
	if err := r.write(a, "-", true); err != nil {
		t.Fatal(err)
	}
	files, dir := unpack(t, &out)
	files["the directory"], files["the standard error"] = dir, errs.String()
	for _, name := range []string{"versions.json", "cgroups.jsonl", "status.json", "events.json", "explanations.json", "config.yaml", "check.json", "journal.txt", "MISSING.txt"} {
		if files[name] == "" {
			t.Errorf("archive lacks %s", name)
		}
	}
	for name, text := range files {
		for _, secret := range secrets() {
			if strings.Contains(text, secret) || strings.Contains(text, strings.ReplaceAll(secret, `\`, `\\`)) {
				t.Errorf("%s has %s: %s", name, secret, text)
			}
		}
	}
	var s inspect.Status
	if err := json.Unmarshal([]byte(files["status.json"]), &s); err != nil || len(s.Containers) != 2 {
		t.Fatalf("read status again: %v", err)
	}
	c := &s.Containers[0]
	if s.CPUs[0].Owner != c.Full() || c.Reason != "because of "+c.Full() || c.Pool != inspect.Shared || c.PodUID != "u" {
		t.Errorf("names are replaced differently: %+v, owner %s", c, s.CPUs[0].Owner)
	}
	var e inspect.Explanation
	if err := json.Unmarshal([]byte(files["explanations.json"]), &e); err != nil || len(e.Subjects) != 2 || e.Subjects[0].Container.Full() != c.Full() || e.Subjects[1].Container.Name != s.Containers[1].Name {
		t.Errorf("explanations = %+v, %v; want the status's, with names replaced alike", e.Subjects, err)
	}
	for name, want := range map[string]string{
		"journal.txt":   `pod=` + c.Namespace + `/pod-\d+ container=container-\d+ error="pod \\"` + c.Namespace + `/pod-\d+\\" lacks"`,
		"cgroups.jsonl": `"cgroup":"system.slice/` + s.Containers[1].Name + `"`,
		"config.yaml":   `namespaces: \[namespace-\d+\]`,
		"MISSING.txt":   `journalctl has failed on host-1`,
		"versions.json": `"arguments": "ro isolcpus=2-3 rd.iscsi.password=... ip=..."`,
	} {
		if !regexp.MustCompile(want).MatchString(files[name]) {
			t.Errorf("%s is\n%s\nwant %s in it", name, files[name], want)
		}
	}
}

// TestReportExplainsTheTroubledFirst checks that each pod is explained once, whatever
// its containers are.
func TestReportExplainsTheTroubledFirst(t *testing.T) {
	s := &inspect.Status{
		Containers: []inspect.Container{
			{PodUID: "ordinary", Name: "a"}, {PodUID: "owner", Name: "a"}, {PodUID: "owner", Name: "b", Exclusive: true}, {PodUID: "refused", Name: "a", Refused: true},
			{Unit: true, Name: "x.service"}, {PodUID: "told", Name: "a"}, {Name: "of no pod"},
		},
		Problems: []inspect.Problem{{PodUID: "told"}, {PodUID: "gone"}, {Unit: "x.service"}},
	}
	if got, want := strings.Join(subjectsOf(s), " "), "refused x.service told owner ordinary"; got != want {
		t.Errorf("explained are %s; want %s", got, want)
	}
}

// talkative is a daemon whose every explanation is long.
type talkative struct{ past }

func (talkative) Status() *inspect.Status {
	s := &inspect.Status{Version: inspect.Version}
	for i := range 40 {
		s.Containers = append(s.Containers, inspect.Container{Namespace: "n", Pod: "p", PodUID: fmt.Sprint("u", i), Name: "c"})
	}
	return s
}

func (talkative) Explain(name string) (*inspect.Explanation, error) {
	if name == "u1" {
		return nil, &inspect.NameError{Text: "it is gone"}
	}
	return &inspect.Explanation{Subjects: []inspect.Subject{{Rules: []inspect.Rule{{Answer: strings.Repeat("x", 100<<10)}}}}}, nil
}

// TestReportHasRoomForSome checks that an archive keeps the explanations that fit into
// it, and lists the missing ones.
func TestReportHasRoomForSome(t *testing.T) {
	a, _ := reporting(t, "")
	stop := serveDaemon(t, control.Socket(filepath.Dir(a.configFile)), talkative{past{time.Unix(1700000000, 0).UTC(), history.New().Snapshot()}})
	defer stop()
	reach(t, control.Socket(filepath.Dir(a.configFile)))
	var out bytes.Buffer
	a.out = &out
	if err := a.gatherReport(t.Context(), secretive(nil)).write(a, "-", false); err != nil {
		t.Fatal(err)
	}
	files, _ := unpack(t, &out)
	var e inspect.Explanation
	if err := json.Unmarshal([]byte(files["explanations.json"]), &e); err != nil || len(e.Subjects) != 20 {
		t.Errorf("%d explanations, %v; want 20", len(e.Subjects), err)
	}
	for _, want := range []string{"explanations.json: there is room for 21 of 40 pods and units", "explanations.json: 1 of 40 pods and units are not explained; the first: ", "it is gone"} {
		if !strings.Contains(files["MISSING.txt"], want) {
			t.Errorf("missing is %q; want %q", files["MISSING.txt"], want)
		}
	}
}

// TestReportWaitsAtTheSameTime checks that the parts of a report run at the same time: the
// checks and the log wait for each other here.
func TestReportWaitsAtTheSameTime(t *testing.T) {
	a, _ := reporting(t, "")
	m, met := secretive(nil), make(chan struct{})
	m.check = func(ctx context.Context, _ preflight.Configuration) []preflight.Finding {
		select {
		case <-met:
		case <-ctx.Done():
			t.Error("the log is not read during the checks; want both at a time")
		}
		return nil
	}
	m.journal = func(ctx context.Context) ([]byte, error) {
		select {
		case met <- struct{}{}:
		case <-ctx.Done():
		}
		return []byte("line\n"), nil
	}
	if err := a.doReport(t.Context(), m, "-", false); err != nil {
		t.Fatal(err)
	}
}

// TestReportOfHangingSource checks that a source that hangs costs a report only its own part,
// and names it, also if the source ignores its context.
func TestReportOfHangingSource(t *testing.T) {
	a, _ := reporting(t, "")
	gather := func(t *testing.T, hang func(m *machine, release <-chan struct{})) (files map[string]string) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			m, begin := secretive(nil), time.Now()
			hang(&m, release)
			var out bytes.Buffer
			a.out = &out
			if err := a.doReport(t.Context(), m, "-", false); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > reportTime+grace {
				t.Errorf("duration of the report = %s; want at most its limit", took)
			}
			files, _ = unpack(t, &out)
		})
		return files
	}
	usual := gather(t, func(*machine, <-chan struct{}) {})
	for file, c := range map[string]struct {
		hang func(m *machine, release <-chan struct{})
		want string
	}{
		"versions.json": {func(m *machine, _ <-chan struct{}) {
			m.systemd = func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		}, "the version of systemd: context deadline exceeded"},
		"journal.txt": {func(m *machine, _ <-chan struct{}) {
			m.journal = func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, "journal.txt: context deadline exceeded; where"},
		"check.json": {func(m *machine, release <-chan struct{}) {
			m.check = func(context.Context, preflight.Configuration) []preflight.Finding { <-release; return nil }
		}, "check.json: it did not end within 45s"},
	} {
		got := gather(t, c.hang)
		if !strings.Contains(got["MISSING.txt"], "\n"+c.want) {
			t.Errorf("%s: missing is %q; want %q", file, got["MISSING.txt"], c.want)
		}
		if file == "versions.json" && !strings.Contains(got[file], `"runtime": "containerd 2.1"`) {
			t.Errorf("without systemd, %s is %s; want the version of the runtime", file, got[file])
		}
		want := maps.Clone(usual)
		for _, files := range []map[string]string{got, want} {
			delete(files, "MISSING.txt")
			delete(files, file)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("the source of %s hangs: other files (-want +got):\n%s", file, d)
		}
	}
}

// TestReportInterrupted checks that a signal ends a report without a file.
func TestReportInterrupted(t *testing.T) {
	a, _ := reporting(t, "")
	m, file := secretive(nil), filepath.Join(t.TempDir(), "r.tar.gz")
	ctx, interrupt := context.WithCancel(t.Context())
	m.check = func(ctx context.Context, _ preflight.Configuration) []preflight.Finding {
		interrupt()
		<-ctx.Done()
		return nil
	}
	if err := a.doReport(ctx, m, file, false); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want the context's", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of the file: %v; want that it does not exist", err)
	}
}

// TestReportWithoutADaemon checks that the available parts are written to a file for root
// alone, and that the missing parts are listed. An existing file is not replaced.
func TestReportWithoutADaemon(t *testing.T) {
	a, errs := reporting(t, "")
	r := a.gatherReport(t.Context(), secretive(nil))
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	if err := r.write(a, file, false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the file has mode %v, %v; want 0o600", info.Mode(), err)
	}
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	files, _ := unpack(t, data)
	for _, want := range []string{"status.json: ", "events.json: ", "topology.json: "} {
		if !strings.Contains(files["MISSING.txt"], want) || !strings.Contains(errs.String(), want) {
			t.Errorf("missing is %q, said is %q; want %s in both", files["MISSING.txt"], errs, want)
		}
	}
	if files["status.json"]+files["explanations.json"] != "" || !strings.Contains(files["config.yaml"], "krill-ns") || !strings.Contains(files["cgroups.jsonl"], "anchovy.service") {
		t.Errorf("files = %v; want no status, and a configuration", files)
	}
	if err := r.write(a, file, false); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("to a file that exists: %v", err)
	}
}

// TestReportOfWhatIsNotUnderstood checks that a configuration with mistakes stays out of a
// report without names, because its names are unknown.
func TestReportOfWhatIsNotUnderstood(t *testing.T) {
	a, _ := reporting(t, "unknownKey: orcans\n")
	var out bytes.Buffer
	a.out = &out
	if err := a.gatherReport(t.Context(), secretive(fs.ErrNotExist)).write(a, "-", true); err != nil {
		t.Fatal(err)
	}
	if files, _ := unpack(t, &out); files["config.yaml"] != "" || !strings.Contains(files["MISSING.txt"], "config.yaml: it could not be understood") || !strings.Contains(files["MISSING.txt"], "read these before you hand the report on") {
		t.Errorf("files = %v; want no configuration, and its reason", files)
	}
}
