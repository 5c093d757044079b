package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// left returns the labels that the result of an expression may have.
func (m table) left(expr parser.Expr) []string {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return m.left(e.Expr)
	case *parser.MatrixSelector:
		return m.left(e.VectorSelector)
	case *parser.VectorSelector:
		of := slices.Clone(m[e.Name])
		if !strings.Contains(e.Name, ":") { // the rules list the labels of a target that a record keeps
			of = append(of, always...)
		}
		return of
	case *parser.AggregateExpr:
		if e.Without {
			return slices.DeleteFunc(m.left(e.Expr), func(l string) bool { return slices.Contains(e.Grouping, l) })
		}
		return e.Grouping
	case *parser.Call:
		if e.Func.Name == "absent" {
			return equalities(e.Args[0])
		}
		for _, arg := range e.Args {
			if arg.Type() != parser.ValueTypeScalar && arg.Type() != parser.ValueTypeString {
				return m.left(arg)
			}
		}
	case *parser.BinaryExpr:
		return m.leftOfTwo(e)
	}
	return nil
}

func (m table) leftOfTwo(e *parser.BinaryExpr) []string {
	if e.LHS.Type() == parser.ValueTypeScalar {
		return m.left(e.RHS)
	}
	of := m.left(e.LHS)
	matching := e.VectorMatching
	if matching == nil || e.Op.IsSetOperator() && e.Op != parser.LOR {
		return of
	}
	if e.Op == parser.LOR {
		return append(slices.Clone(of), m.left(e.RHS)...)
	}
	if matching.Card != parser.CardOneToOne {
		return of
	}
	if matching.On {
		return matching.MatchingLabels
	}
	return slices.DeleteFunc(slices.Clone(of), func(l string) bool { return slices.Contains(matching.MatchingLabels, l) })
}

// equalities returns the labels that absent copies from its expression.
func equalities(expr parser.Expr) (of []string) {
	if v, is := expr.(*parser.VectorSelector); is {
		for _, matcher := range v.LabelMatchers {
			if matcher.Type == labels.MatchEqual && matcher.Name != labels.MetricName {
				of = append(of, matcher.Name)
			}
		}
	}
	return of
}

// used are the labels that a template asks for.
var used = regexp.MustCompile(`\$labels\.(\w+)`)

// missing are the labels that an alert's texts ask for, and that it does not have.
func (m table) missing(t *testing.T, r rule) (names []string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	has := m.left(expr)
	for _, text := range r.Annotations {
		for _, label := range used.FindAllStringSubmatch(text, -1) {
			if _, own := r.Labels[label[1]]; !own && !slices.Contains(has, label[1]) {
				names = append(names, label[1])
			}
		}
	}
	return names
}

// TestAnnotations checks that each label in a text of an alert exists. Prometheus would insert nothing for an
// unknown label.
func TestAnnotations(t *testing.T) {
	m := withRecords(t)
	n := 0
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		for _, text := range r.Annotations {
			n += len(used.FindAllString(text, -1))
		}
		if names := m.missing(t, r); len(names) > 0 {
			t.Errorf("%s: labels in its texts = %q; want labels of the alert", r.Alert, names)
		}
	}
	if n < 20 {
		t.Errorf("%d labels in all texts; want at least 20", n)
	}
}

func TestMissing(t *testing.T) {
	m := withRecords(t)
	for expr, want := range map[string]string{
		`up == 0`:                     "pool",
		`absent(up{job="a"})`:         "instance pool",
		`sum(cpupoold_pool_cpus) > 1`: "instance pool",
		`sum by (pool) (rate(cpupoold_pool_cpu_seconds_total[5m]))`:                                "instance",
		`cpupoold_pool_cpus{pool="shared"} < 1 unless on (instance, job) cpupoold_observed_writes`: "",
		`cpupoold_pool_cpus * on (instance) group_left () up`:                                      "",
		`cpupoold_pool_cpus * on (instance) up`:                                                    "pool",
		`instance:cpupoold_pool_runqueue_wait:ratio_rate5m > 1`:                                    "",
		`instance:cpupoold_fragmentation:ratio > 0.5`:                                              "pool",
		`cpupoold:placements_late:ratio_rate5m > 1 and cpupoold:placements_late:ratio_rate1h > 1`:  "instance pool",
	} {
		got := m.missing(t, rule{Expr: expr, Annotations: map[string]string{"summary": "{{ $labels.instance }} {{ $labels.pool }}"}})
		if strings.Join(got, " ") != want {
			t.Errorf("missing(%s) = %q; want %q", expr, got, want)
		}
	}
}
