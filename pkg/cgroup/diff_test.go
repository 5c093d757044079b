package cgroup_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var update = flag.Bool("update", false, "write the results into testdata")

// TestDiff runs the archives in testdata/diff. Each has the sections options, current
// and targets, with one line of key=value words for each cgroup, and want: the writes
// and the deferred writes.
func TestDiff(t *testing.T) {
	files, err := filepath.Glob("testdata/diff/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := parseCase(t, archive)
			writes, deferred := cgroup.Diff(c.targets, c.current, c.options)
			got := render(writes, deferred)
			if *update {
				setSection(archive, "want", got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(section(archive, "want"), got); d != "" {
				t.Errorf("Diff (-want +got):\n%s", d)
			}
		})
	}
}

func render(writes []cgroup.Write, deferred []cgroup.Deferred) string {
	var b strings.Builder
	for _, w := range writes {
		fmt.Fprintln(&b, w)
	}
	for _, x := range deferred {
		fmt.Fprintln(&b, x)
	}
	return b.String()
}

type diffCase struct {
	targets []cgroup.Target
	current map[cgroup.Path]cgroup.Current
	options cgroup.Options
}

func parseCase(t *testing.T, archive *txtar.Archive) diffCase {
	t.Helper()
	c := diffCase{current: map[cgroup.Path]cgroup.Current{}}
	options := words(t, strings.TrimSpace(section(archive, "options")))
	c.options.Driver = cgroup.Driver(options["driver"])
	c.options.Possible = set(t, options["possible"])
	c.options.Spare = set(t, options["spare"])
	c.options.Nodes = set(t, options["nodes"])
	if has(options, "leaving") {
		c.options.Leaving = map[cgroup.Path]cpuset.Set{"system.slice/leaving.service": set(t, options["leaving"])}
	}
	for line := range strings.Lines(section(archive, "current")) {
		path, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.current[cgroup.Path(path)] = parseCurrent(t, cgroup.Path(path), words(t, rest), c.options)
	}
	for line := range strings.Lines(section(archive, "targets")) {
		line, reason, _ := strings.Cut(strings.TrimSpace(line), " # ")
		path, rest, _ := strings.Cut(line, " ")
		w := words(t, rest)
		c.targets = append(c.targets, cgroup.Target{
			Path: cgroup.Path(path), Container: w["container"], CPUs: set(t, w["cpus"]), Exclusive: has(w, "exclusive"), Mixed: set(t, w["mixed"]),
			Unit: w["named"], NoCRI: has(w, "nocri"), Around: has(w, "around"), Mems: set(t, w["mems"]), Weight: uint64(number(t, w["weight"], 0)), Unlimited: has(w, "unlimited"),
			Quota: number(t, w["quota"], 0), Period: number(t, w["period"], 0), Reason: reason,
		})
	}
	return c
}

// parseCurrent reads the line of a cgroup. By default the cgroup has both controllers
// and tasks, and its parent all CPUs.
func parseCurrent(t *testing.T, p cgroup.Path, w map[string]string, o cgroup.Options) cgroup.Current {
	t.Helper()
	c := cgroup.Current{
		Exists: !has(w, "absent"), Pending: set(t, w["pending"]), NoRecord: has(w, "norecord"), NoWrite: has(w, "nowrite"),
	}
	list := func(key string) []string { return strings.FieldsFunc(w[key], func(r rune) bool { return r == ',' }) }
	c.Left, c.Drifted = list("left"), list("drifted")
	c.Recorded, c.RecordedKnown = set(t, w["recorded"]), has(w, "recorded")
	c.RecordedMems = set(t, w["recordedmems"])
	if c.Exists {
		c.State = cgroup.State{
			Path: p, HasCPUSet: !has(w, "nocpuset"), CPUs: set(t, w["cpus"]), ParentEffective: o.Possible,
			HasCPU: !has(w, "nocpu"), Weight: uint64(number(t, w["weight"], 100)), Idle: has(w, "idle"),
			Quota: number(t, w["quota"], -1), Period: number(t, w["period"], 100_000), Mems: set(t, w["mems"]), Populated: true,
		}
		if has(w, "parent") {
			c.ParentEffective = set(t, w["parent"])
		}
		if c.Effective = c.CPUs.Intersection(c.ParentEffective); c.Effective.IsEmpty() {
			c.Effective = c.ParentEffective
		}
		if has(w, "inner") {
			c.Inner = &cgroup.State{Path: p.Join("container"), HasCPUSet: true, CPUs: set(t, w["inner"]), Mems: set(t, w["innermems"]), Quota: number(t, w["innerquota"], -1)}
		}
	}
	if has(w, "unit") {
		if !has(w, "unitcpus") {
			w["unitcpus"] = w["recorded"] // as the runtime hands it on
		}
		c.Unit = cgroup.UnitState{Known: true, CPUs: set(t, w["unitcpus"]), Mems: set(t, w["unitmems"]), Weight: uint64(number(t, w["unit"], 0)), Quota: number(t, w["unitquota"], -1)}
	}
	return c
}

func words(t *testing.T, line string) map[string]string {
	t.Helper()
	known := " driver possible spare leaving container cpus exclusive weight unlimited absent pending norecord nowrite recorded nocpuset nocpu idle quota parent inner innerquota unit unitquota unitcpus named mems nodes recordedmems period innermems unitmems left drifted mixed nocri around "
	w := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		if !strings.Contains(known, " "+key+" ") {
			t.Fatalf("unknown key %s", key)
		}
		w[key] = value
	}
	return w
}

func has(w map[string]string, key string) bool {
	_, ok := w[key]
	return ok
}

func set(t *testing.T, s string) cpuset.Set {
	t.Helper()
	cpus, err := cpuset.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return cpus
}

func number(t *testing.T, s string, otherwise int64) int64 {
	t.Helper()
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func section(archive *txtar.Archive, name string) string {
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func setSection(archive *txtar.Archive, name, text string) {
	for i, f := range archive.Files {
		if f.Name == name {
			archive.Files[i].Data = []byte(text)
			return
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
}
