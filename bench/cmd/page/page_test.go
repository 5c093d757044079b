package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	results    = "../../results"
	repository = "../../.."
)

// awaited returns rows without samples: their benchmarks are newer than the record. `make bench` takes the samples.
func awaited() []string {
	return nil
}

// TestPage checks that docs/reference/benchmarks.md is the page of bench/results, with at most 40
// rows. Only awaited rows lack samples. Other pages have the same figures as the rows.
func TestPage(t *testing.T) {
	p, err := render(results)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(repository, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != p.text {
		t.Errorf("%s differs from the page of bench/results; run make docs", pagePath)
	}
	if n := len(rows()); n > 40 {
		t.Errorf("%d rows, want at most 40", n)
	}
	for _, anchor := range p.missing {
		if !slices.Contains(awaited(), anchor) {
			t.Errorf("row %s has no samples", anchor)
		}
	}
	changed, err := p.figures(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	for name := range changed {
		t.Errorf("%s: a figure differs from its row; run make docs", name)
	}
}

// TestRows checks that no two rows have the same anchor, and that the command of each row names a
// benchmark of its package, or a part of bench/record.sh.
func TestRows(t *testing.T) {
	command := regexp.MustCompile(`^go (?:-C (\S+) )?test -run '\^\$' -bench '(\w+)[^']*'(?: -benchtime \d+x)? (\.\S*)$`)
	script, err := os.ReadFile(repository + "/bench/record.sh")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, r := range rows() {
		if anchors[r.anchor] {
			t.Errorf("two rows have the anchor %s", r.anchor)
		}
		anchors[r.anchor] = true
		if part, ok := strings.CutPrefix(r.repeat, "make bench PARTS="); ok {
			if !strings.Contains(string(script), "\n  "+part+") ") {
				t.Errorf("row %s: bench/record.sh has no part %s", r.anchor, part)
			}
			continue
		}
		m := command.FindStringSubmatch(r.repeat)
		if m == nil {
			t.Errorf("row %s: the command %q has another form", r.anchor, r.repeat)
			continue
		}
		dir := filepath.Join(repository, m[1], m[3])
		if !declares(t, dir, "func Benchmark"+m[2]+"(") {
			t.Errorf("row %s: %s has no Benchmark%s", r.anchor, dir, m[2])
		}
	}
}

// declares reports whether a test file in dir contains text.
func declares(t *testing.T, dir, text string) bool {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(src), text)
	})
}

// TestFigures checks that figures finds a link to a row if its text is a figure, and no other link.
func TestFigures(t *testing.T) {
	p := &page{values: map[string]string{"repair": "334 µs", "placement": "-270 ms"}}
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := p.figures(fstest.MapFS{
		"README.md":         file("[1 ms](docs/reference/benchmarks.md#repair), [the page](docs/reference/benchmarks.md#repair)"),
		"docs/same.md":      file("[334 µs](reference/benchmarks.md#repair)"),
		"docs/a/b.md":       file("[-1 s](../../docs/reference/benchmarks.md#placement) [2 ms](other.md#repair)"),
		pagePath:            file("[1 ms](benchmarks.md#repair)"),
		"docs/reference/c":  file("[1 ms](benchmarks.md#repair)"),
		"internal/other.md": file("[1 ms](../docs/reference/benchmarks.md#repair)"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"README.md":   "[334 µs](docs/reference/benchmarks.md#repair), [the page](docs/reference/benchmarks.md#repair)",
		"docs/a/b.md": "[-270 ms](../../docs/reference/benchmarks.md#placement) [2 ms](other.md#repair)",
	}
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: got %q, want %q", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d pages have changed, want %d: %v", len(got), len(want), got)
	}
	_, err = p.figures(fstest.MapFS{"README.md": file("[1 ms](docs/reference/benchmarks.md#gone)"), "docs/a.md": file("")})
	if err == nil || !strings.Contains(err.Error(), "no row #gone") {
		t.Errorf("error %v for an unknown row", err)
	}
}

// TestRow checks values, limits and units of rows.
func TestRow(t *testing.T) {
	dir := t.TempDir()
	const file = `pkg: example/a
BenchmarkPlan/8-2   10  1320000 ns/op  400 p99-ns
BenchmarkPlan/8-2   10  1000000 ns/op  600 p99-ns
BenchmarkPlan/8-2   10  2123456 ns/op  500 p99-ns
BenchmarkOther   10  4000000 ns/op  20832256 RssAnon-B
BenchmarkTwice   10  1 ns/op
pkg: example/b
BenchmarkTwice   10  1 ns/op
`
	for _, part := range []string{"go", "vm"} {
		if err := os.WriteFile(dir+"/"+part+".txt", []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, other := of("go", "Plan/8", "sec/op"), of("vm", "Other", "sec/op")
	for _, c := range []struct {
		row
		want string
	}{
		{row{value: plan, unit: "s"}, "|  | 1.32 ms | host, median of 3 | `cmd` |"},
		{row{value: plan, unit: "s", limit: 2e-3}, "| limit 2 ms: met | 1.32 ms | host, median of 3 | `cmd` |"},
		{row{value: plan, unit: "s", limit: 1e-3}, "| limit 1 ms: **missed** | 1.32 ms | host, median of 3 | `cmd` |"},
		{row{value: sum(plan, plan), unit: "s"}, "|  | 2.64 ms | host, median of 3 | `cmd` |"},
		{row{value: of("go", "Plan/8", "p99-sec"), unit: "s"}, "|  | 500 ns | host, median of 3 | `cmd` |"},
		{row{value: times(other, plan), rival: "them", unit: "x", least: 4}, "| them; at least 4 times: **missed** | them: 3.03 times as long | host, samples: 1 | `cmd` |"},
		{
			row{value: times(bestOf("vm", "Plan/8", "sec/op"), bestOf("vm", "Other", "sec/op")), rival: "off", slow: "on", unit: "x", repeat: vmCommand},
			"| off | on: 0.25 times as long | VM, samples: 1 | `" + vmCommand + "` |",
		},
		{row{value: perSecond(plan), unit: "/s"}, "|  | 0.758 thousand/s | host, median of 3 | `cmd` |"},
		{row{value: of("vm", "Other", "RssAnon-B"), unit: "B", limit: 20 << 20}, "| limit 20 MiB: met | 19.9 MiB | host, samples: 1 | `cmd` |"},
	} {
		c.anchor, c.text = "a", "x"
		if c.repeat == "" {
			c.repeat = "cmd"
		}
		v, err := c.value(p)
		if err != nil {
			t.Errorf("%s: %v", c.want, err)
			continue
		}
		if got, want := c.format(v), `| <a id="a"></a>x `+c.want+"\n"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
	for name, want := range map[string]string{"Missing": "no samples", "Twice": "2 packages"} {
		if _, err := of("go", name, "sec/op")(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// TestQuantity checks that quantities have three digits and no exponent.
func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{
		{1623.4, "x", "1620 times"}, {0, "", "0"}, {-0.2702, "s", "-270 ms"}, {0.04063, "%", "0.0406 %"},
		{6.68e-6, "s", "6.68 µs"}, {2.5, "s", "2.5 s"}, {182345, "/s", "182 thousand/s"},
	} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("quantity(%v, %q) = %q; want %q", c.v, c.unit, got, c.want)
		}
	}
}
