package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recordedSeries returns the number of series for each node, by recording rule: 0 for a rule
// without the label instance.
func recordedSeries(rules string) map[string]string {
	series := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  - record: (\S+)\n    expr: (.*)$`).FindAllStringSubmatch(rules, -1) {
		rule, expr := m[1], m[2]
		switch {
		case strings.Contains(expr, "by (instance, pool, type)"):
			series[rule] = "one for each pool"
		case strings.Contains(expr, "by (instance"):
			series[rule] = "1"
		default:
			series[rule] = "0"
		}
	}
	return series
}

// TestRecordingRules checks that docs/reference/slo.md lists each recording rule with its number of
// series.
func TestRecordingRules(t *testing.T) {
	rules, err := os.ReadFile(root + "/deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/reference/slo.md")
	if err != nil {
		t.Fatal(err)
	}
	want := recordedSeries(string(rules))
	if len(want) < 9 || strings.Count(string(rules), "record: ") != len(want) {
		t.Fatalf("read %d recording rules; rules.yaml has %d", len(want), strings.Count(string(rules), "record: "))
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+:\\S+)` \\| ([^|]+) \\|").FindAllStringSubmatch(string(page), -1) {
		if _, twice := got[m[1]]; twice {
			t.Errorf("%s is listed twice", m[1])
		}
		got[m[1]] = m[2]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series for each node (-rules.yaml +docs/reference/slo.md):\n%s", d)
	}
}

// TestRecordedSeries checks the count for each kind of aggregation.
func TestRecordedSeries(t *testing.T) {
	got := recordedSeries("  - record: a:b\n    expr: sum(rate(x[5m]) unless on (instance, job) y)\n  - record: c:d\n    expr: max by (instance, job) (x)\n" +
		"  - record: e:f\n    expr: sum by (instance, pool, type) (x)\n  - alert: G\n    expr: sum by (instance) (x)\n")
	want := map[string]string{"a:b": "0", "c:d": "1", "e:f": "one for each pool"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
}
