package monitoring

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../../"

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// table are the labels of all metrics by name, as docs/reference/metrics.md has them, which is made
// from the table of the daemon.
type table map[string][]string

// always lists the labels that Prometheus adds to each target.
var always = []string{"instance", "job"}

func newTable(t *testing.T) table {
	t.Helper()
	all := table{"up": nil}
	for line := range strings.Lines(read(t, "docs/reference/metrics.md")) {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || !strings.HasPrefix(line, "| cpupool") {
			continue
		}
		name := strings.TrimPrefix(cells[0], "| ")
		of := strings.FieldsFunc(cells[2], func(r rune) bool { return r == ',' || r == ' ' })
		if cells[1] != "histogram" {
			all[name] = of
			continue
		}
		all[name+"_sum"], all[name+"_count"] = of, of
		all[name+"_bucket"] = append(slices.Clip(of), "le")
	}
	if len(all) < 50 {
		t.Fatalf("metrics in docs/reference/metrics.md = %d; want at least 50", len(all))
	}
	return all
}

// unknown are the metrics and labels of an expression that do not exist.
func (m table) unknown(expr parser.Expr) (names []string) {
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			of, known := m[n.Name]
			if !known {
				names = append(names, n.Name)
				return nil
			}
			for _, matcher := range n.LabelMatchers {
				if l := matcher.Name; l != labels.MetricName && !slices.Contains(of, l) && !slices.Contains(always, l) {
					names = append(names, n.Name+"{"+l+"}")
				}
			}
		case *parser.AggregateExpr:
			below := slices.Clone(always)
			parser.Inspect(n.Expr, func(node parser.Node, _ []parser.Node) error {
				if v, is := node.(*parser.VectorSelector); is {
					below = append(below, m[v.Name]...)
				}
				return nil
			})
			for _, l := range n.Grouping {
				if !slices.Contains(below, l) {
					names = append(names, "by ("+l+")")
				}
			}
		}
		return nil
	})
	return names
}

func (m table) check(t *testing.T, where, expr string) {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if names := m.unknown(parsed); len(names) > 0 {
		t.Errorf("%s: %s: unknown metrics %s", where, expr, strings.Join(names, ", "))
	}
}

func TestUnknown(t *testing.T) {
	m := newTable(t)
	for expr, want := range map[string]string{
		`cpupoold_pool_cpus{pool="shared",instance="a"}`: "",
		`cpupoold_pools`:                                                "cpupoold_pools",
		`cpupoold_pool_cpus{pol="shared"}`:                              "cpupoold_pool_cpus{pol}",
		`sum by (pol) (rate(cpupoold_drift_total[5m]))`:                 "by (pol)",
		`sum by (le) (rate(cpupoold_drift_repair_seconds_bucket[5m]))`:  "",
		`sum by (le) (rate(cpupoold_drift_repair_seconds_count[5m]))`:   "by (le)",
		`1 - cpupoold_drift_repair_seconds / on (instance) up{job="x"}`: "cpupoold_drift_repair_seconds",
	} {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(m.unknown(parsed), ", "); got != want {
			t.Errorf("unknown(%s) = %q; want %q", expr, got, want)
		}
	}
}

// TestProgramMetrics checks that the tables of the webhook and of the driver of ResourceClaims contain
// their metrics, and no others.
func TestProgramMetrics(t *testing.T) {
	for prefix, dirs := range map[string][]string{
		"cpupool_webhook_": {"internal/cluster/*/*.go"},
		"cpupool_dra_":     {"internal/claimdriver/*.go", "internal/claimdriver/*/*.go"},
	} {
		name := regexp.MustCompile(`"(` + prefix + `\w+)"`)
		var want, got []string
		for _, dir := range dirs {
			files, err := filepath.Glob(root + dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range name.FindAllStringSubmatch(string(code), -1) {
					want = append(want, m[1])
				}
			}
		}
		for m := range maps.Keys(newTable(t)) {
			if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(m, "_bucket"), "_count"), "_sum"); strings.HasPrefix(m, prefix) {
				got = append(got, base) // of a histogram
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		got = slices.Compact(got)
		if !slices.Equal(want, got) {
			t.Errorf("docs/reference/metrics.md has %q; want %q", got, want)
		}
	}
}
