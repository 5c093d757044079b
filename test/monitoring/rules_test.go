package monitoring

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "make prometheusrule.yaml anew")

type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var f ruleFile
	if err := yaml.Unmarshal([]byte(read(t, "deploy/monitoring/rules.yaml")), &f); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// withRecords are the metrics with those that the rules record, and with the labels that their
// expressions leave.
func withRecords(t *testing.T) table {
	t.Helper()
	m := newTable(t)
	for _, r := range rules(t) {
		if r.Record == "" {
			continue
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatalf("%s: %v", r.Record, err)
		}
		m[r.Record] = m.left(expr)
	}
	return m
}

func TestRules(t *testing.T) {
	m, cases := withRecords(t), read(t, "test/monitoring/testdata/alerts.yaml")
	alerts := map[string]bool{}
	for _, r := range rules(t) {
		m.check(t, r.Alert+r.Record, r.Expr)
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("severity of %s = %q; want critical or warning", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		const pages = "https://github.com/cpupoold/cpupoold/blob/main/"
		page, is := strings.CutPrefix(r.Annotations["runbook_url"], pages)
		if !is || page != "docs/troubleshooting/runbooks/"+r.Alert+".md" {
			t.Errorf("runbook_url of %s = %q; want its page", r.Alert, r.Annotations["runbook_url"])
			continue
		}
		text := read(t, page)
		for _, head := range []string{"# " + r.Alert, "## Meaning", "## Impact", "## How to look", "## How to repair", "## When it is a false alarm"} {
			if !strings.Contains(text, head+"\n") {
				t.Errorf("%s lacks %q", page, head)
			}
		}
		for _, kind := range []string{" fires", " is quiet"} {
			if !strings.Contains(cases, "- name: "+r.Alert+kind+"\n") {
				t.Errorf("testdata/alerts.yaml: no case %q", r.Alert+kind)
			}
		}
	}
	all, err := filepath.Glob(root + "docs/troubleshooting/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); name != "README" && !alerts[name] {
			t.Errorf("docs/troubleshooting/runbooks/%s.md describes no alert", name)
		}
	}
}

const ruleObject = `# Made from rules.yaml: go -C test/monitoring test . -update
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: cpupoold
  namespace: cpupoold
  labels: {app.kubernetes.io/name: cpupoold}
spec:
`

func TestPrometheusRule(t *testing.T) {
	const file = "deploy/monitoring/prometheusrule.yaml"
	_, groups, _ := strings.Cut(read(t, "deploy/monitoring/rules.yaml"), "\ngroups:\n")
	want := ruleObject + "  groups:\n"
	for line := range strings.Lines(groups) {
		want += "  " + line
	}
	if *update {
		if err := os.WriteFile(root+file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, file) != want {
		t.Errorf("%s differs from rules.yaml: go -C test/monitoring test . -update", file)
	}
}

func TestDashboard(t *testing.T) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/monitoring/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 {
		t.Fatal("the dashboard has no panels")
	}
	m := withRecords(t)
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no queries", p.Title)
		}
		for _, target := range p.Targets {
			m.check(t, "panel "+p.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
}

// TestPromtool has Prometheus' own tool try the rules, and look at a scrape.
func TestPromtool(t *testing.T) {
	tool := os.Getenv("PROMTOOL")
	if tool == "" {
		t.Skip("PROMTOOL names no promtool; make test-monitoring fetches Debian's")
	}
	for _, args := range [][]string{
		{"check", "rules", root + "deploy/monitoring/rules.yaml"},
		{"test", "rules", "testdata/alerts.yaml"},
		{"check", "metrics"},
	} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Stdin = strings.NewReader(read(t, "internal/node/telemetry/testdata/metrics.txt"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
