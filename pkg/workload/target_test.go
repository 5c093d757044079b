package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

const effect = `{"effect":"PreferredDuringScheduling"}`

func TestTarget(t *testing.T) {
	const management = "target.workload.openshift.io/management"
	tests := []struct {
		name        string
		domain      string
		annotations map[string]string
		want        string
		found       bool
		err         []string // all of them are in the error's text
	}{
		{name: "none", annotations: map[string]string{"a": "b", "target.workload.openshift.io": effect}},
		{name: "nil"},
		{name: "management", annotations: map[string]string{management: effect}, want: "management", found: true},
		{name: "blanks in JSON", annotations: map[string]string{management: " { \"effect\" : \"PreferredDuringScheduling\" }\n"}, want: "management", found: true},
		{name: "other domain", domain: "cpu.example.org", annotations: map[string]string{"target.cpu.example.org/infra": effect, management: "{"}, want: "infra", found: true},
		{name: "domain is not a prefix", domain: "workload.openshift", annotations: map[string]string{management: effect}},
		{
			name: "two types", annotations: map[string]string{management: effect, "target.workload.openshift.io/a": effect}, found: true,
			err: []string{"target.workload.openshift.io/a: ", "there is another one, " + management, "keep the annotation of one"},
		},
		{name: "no type", annotations: map[string]string{"target.workload.openshift.io/": effect}, found: true, err: []string{"no workload type after the slash"}},
		{name: "empty value", annotations: map[string]string{management: ""}, found: true, err: []string{management, `value ""`, "not a JSON object", "write target.workload.openshift.io/<type>: " + effect}},
		{name: "null", annotations: map[string]string{management: "null"}, found: true, err: []string{"not a JSON object"}},
		{name: "array", annotations: map[string]string{management: `["effect"]`}, found: true, err: []string{"not a JSON object"}},
		{name: "cut off", annotations: map[string]string{management: "{"}, found: true, err: []string{"malformed JSON"}},
		{name: "cut off after key", annotations: map[string]string{management: `{"effect"`}, found: true, err: []string{"malformed JSON"}},
		{name: "cut off after value", annotations: map[string]string{management: `{"effect":"PreferredDuringScheduling"`}, found: true, err: []string{"malformed JSON"}},
		{name: "empty object", annotations: map[string]string{management: "{}"}, found: true, err: []string{"no effect"}},
		{name: "empty effect", annotations: map[string]string{management: `{"effect":""}`}, found: true, err: []string{"effect is not the string PreferredDuringScheduling"}},
		{name: "other effect", annotations: map[string]string{management: `{"effect":"Required"}`}, found: true, err: []string{"effect is not the string"}},
		{name: "number", annotations: map[string]string{management: `{"effect":1}`}, found: true, err: []string{"effect is not the string"}},
		{name: "nested", annotations: map[string]string{management: `{"effect":{}}`}, found: true, err: []string{"nested JSON"}},
		{name: "unknown key", annotations: map[string]string{management: `{"effect":"PreferredDuringScheduling","x":1}`}, found: true, err: []string{`unknown key "x"`}},
		{name: "key in other case", annotations: map[string]string{management: `{"Effect":"PreferredDuringScheduling"}`}, found: true, err: []string{`unknown key "Effect"`}},
		{name: "repeated key", annotations: map[string]string{management: `{"effect":"PreferredDuringScheduling","effect":"PreferredDuringScheduling"}`}, found: true, err: []string{`repeated key "effect"`}},
		{name: "text after", annotations: map[string]string{management: effect + "x"}, found: true, err: []string{"text after the JSON object"}},
		{name: "second object", annotations: map[string]string{management: effect + effect}, found: true, err: []string{"text after the JSON object"}},
		{name: "huge", annotations: map[string]string{management: strings.Repeat("{", 1<<20)}, found: true, err: []string{"too long", "... (1048576 bytes)"}},
		{name: "line break", annotations: map[string]string{"target.workload.openshift.io/a\nb": "x"}, found: true, err: []string{`"target.workload.openshift.io/a\nb"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := workload.Names{Domain: tt.domain}.Target(tt.annotations)
			if got != tt.want || found != tt.found {
				t.Errorf("Target(%v) = %q, %t, want %q, %t", tt.annotations, got, found, tt.want, tt.found)
			}
			checkError(t, err, tt.err)
		})
	}
}

// checkError also checks that each error fits into a log line.
func checkError(t *testing.T, err error, want []string) {
	t.Helper()
	if (err != nil) != (want != nil) {
		t.Fatalf("err = %v, want %q", err, want)
	}
	if err == nil {
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("err = %v, want %q in it", err, w)
		}
	}
	if len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("length of the error = %d; want one line of at most 1500: %.200q", len(err.Error()), err.Error())
	}
}

func TestAnnotatedContainers(t *testing.T) {
	annotations := map[string]string{
		"resources.workload.openshift.io/b":                 "1",
		"resources.workload.openshift.io/a":                 "1",
		"io.openshift.workload.management.cpushares/a":      "1",
		"io.openshift.workload.management.cpushares/c":      "1",
		"io.openshift.workload.other.cpushares/d":           "1",
		"io.openshift.workload.dotted.type.cpushares/e":     "1",
		"io.openshift.workload.management.cpuset/f":         "1",
		"io.openshift.workload.management/h":                "1",
		"io.openshift.workloadmanagement.cpushares/g":       "1",
		"resources.workload.openshift.io":                   "1",
		"target.workload.openshift.io/management":           effect,
		"io.openshift.workload.management.cpushares.x/none": "1",
	}
	for typ, want := range map[string][]string{
		"management":  {"a", "b", "c"},
		"other":       {"a", "b", "d"},
		"dotted.type": {"a", "b", "e"},
		"absent":      {"a", "b"},
		"":            {"a", "b", "c", "d", "e"},
	} {
		if diff := cmp.Diff(want, workload.Names{}.AnnotatedContainers(annotations, typ)); diff != "" {
			t.Errorf("AnnotatedContainers(%q): -want +got\n%s", typ, diff)
		}
	}
	if got := (workload.Names{Domain: "example.org"}).AnnotatedContainers(annotations, ""); got != nil {
		t.Errorf("AnnotatedContainers in another domain = %q, want none", got)
	}
}
