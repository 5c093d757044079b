package main

import (
	"os"
	"strings"
	"testing"
)

// TestPage checks that docs/reference/benchmarks.md is the page of bench/results, with at most 40 rows.
func TestPage(t *testing.T) {
	want, err := render("../../results")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/reference/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/benchmarks.md differs from the page of bench/results; run make docs")
	}
	if n := len(rows()); n > 40 {
		t.Errorf("%d rows, want at most 40", n)
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
	for _, part := range []string{"go", "flag", "compare", "kubelet", "pods", "vm", "limits"} {
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
		{row{value: plan, unit: "s"}, "| 1.32 ms | 1 ms |  |  |"},
		{row{value: plan, unit: "s", limit: 2e-3}, "| 1.32 ms | 1 ms | below 2 ms | met |"},
		{row{value: plan, unit: "s", limit: 1e-3}, "| 1.32 ms | 1 ms | below 1 ms | **missed** |"},
		{row{value: of("go", "Plan/8", "p99-sec"), unit: "s"}, "| 500 ns | 400 ns |  |  |"},
		{row{value: times(other, plan), unit: "x", least: 4}, "| 3.03 times | 4 times | at least 4 times | **missed** |"},
		{row{value: perSecond(plan), unit: "/s"}, "| 0.758 thousand/s | 1 thousand/s |  |  |"},
		{row{value: of("vm", "Other", "RssAnon-B"), unit: "B", limit: 20 << 20}, "| 19.9 MiB | 19.9 MiB | below 20 MiB | met |"},
	} {
		c.text = "x"
		got, err := c.format(p)
		if want := "| x " + c.want + "\n"; err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	for name, want := range map[string]string{"Missing": "0 packages", "Twice": "2 packages"} {
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
