package prometheus_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/prometheus"
)

func TestShorten(t *testing.T) {
	const rules = `groups:
- name: a
  interval: 30s
  rules:
  - record: x:rate5m
    expr: rate(x[5m]) / sum(rate(y[1h]))
  - alert: X
    expr: x:rate5m > 1
    for: 15m
    annotations: {description: "For 15 minutes, [sic] for: 5 of 7m."}
`
	const want = `groups:
- name: a
  interval: 1500ms
  rules:
  - record: x:rate5m
    expr: rate(x[15000ms]) / sum(rate(y[180000ms]))
  - alert: X
    expr: x:rate5m > 1
    for: 45000ms
    annotations: {description: "For 15 minutes, [sic] for: 5 of 7m."}
`
	got, err := prometheus.Shorten(rules, 20)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"X"}, prometheus.Names(rules)); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for text, factor := range map[string]int{rules: 0, "groups: []\n": 20} {
		if _, err := prometheus.Shorten(text, factor); err == nil {
			t.Errorf("Shorten(%q, %d) = no error; want one", text, factor)
		}
	}
}

// TestShortenDelivered checks that Shorten changes every duration of the real file.
func TestShortenDelivered(t *testing.T) {
	text, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := string(text)
	short, err := prometheus.Shorten(rules, 20)
	if err != nil {
		t.Fatal(err)
	}
	names := prometheus.Names(rules)
	if n := strings.Count(rules, "alert: "); n == 0 || len(names) != n {
		t.Errorf("names = %d; want %d alerts", len(names), n)
	}
	if n := len(regexp.MustCompile(`(?m)^\s+for: \d+ms$`).FindAllString(short, -1)); n != strings.Count(rules, " for: ") {
		t.Errorf("shortened times = %d; want %d", n, strings.Count(rules, " for: "))
	}
	if left := regexp.MustCompile(`\[\d+[smh]\]|: \d+[smh]\n`).FindString(short); left != "" {
		t.Errorf("%q is unchanged; want it shorter", left)
	}
}
