package workload_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestContainerResources(t *testing.T) {
	tests := []struct {
		name     string
		domain   string
		key      string // the new form by default
		value    string
		want     workload.Resources
		notFound bool
		err      []string
	}{
		{name: "shares", value: `{"cpushares":409}`, want: workload.Resources{Shares: 409}},
		{name: "shares and limit", value: `{"cpushares":409,"cpulimit":500}`, want: workload.Resources{Shares: 409, LimitMilli: 500}},
		{name: "BestEffort, as OpenShift writes it", value: `{"cpushares": 2}`, want: workload.Resources{Shares: 2}},
		{name: "most", value: `{"cpushares":262144,"cpulimit":1000000000}`, want: workload.Resources{Shares: 262144, LimitMilli: 1e9}},
		{name: "empty object", value: `{}`},
		{name: "zeros", value: `{"cpushares":0,"cpulimit":0}`},
		{name: "other container", key: "resources.workload.openshift.io/other", value: "garbage", notFound: true},
		{name: "other domain", domain: "example.org", key: "resources.example.org/app", value: `{"cpushares":7}`, want: workload.Resources{Shares: 7}},
		{name: "not in that domain", domain: "example.org", value: `{"cpushares":7}`, notFound: true},
		{name: "old form", key: "io.openshift.workload.management.cpushares/app", value: "102", want: workload.Resources{Shares: 102}},
		{name: "old form, other domain", domain: "cpu.example.org", key: "org.example.cpu.management.cpushares/app", value: "102", want: workload.Resources{Shares: 102}},
		{name: "old form, other type", key: "io.openshift.workload.infra.cpushares/app", value: "102", notFound: true},
		{name: "old form, JSON", key: "io.openshift.workload.management.cpushares/app", value: `{"cpushares":102}`, err: []string{"cpushares is not a whole number", "write CPU shares, 2 to 262144"}},
		{name: "old form, huge", key: "io.openshift.workload.management.cpushares/app", value: strings.Repeat("9", 1<<20), err: []string{"cpushares is too large"}},

		{name: "cpuset", value: `{"cpushares":409,"cpuset":"0-3"}`, err: []string{"a pod cannot choose its CPUs: cpuset", `write {"cpushares":N}`}},
		{name: "cpuquota", value: `{"cpuquota":1000}`, err: []string{`unknown key "cpuquota"`}},
		{name: "key in other case", value: `{"CPUShares":409}`, err: []string{`unknown key "CPUShares"`}},
		{name: "repeated key", value: `{"cpushares":409,"cpushares":262144}`, err: []string{`repeated key "cpushares"`}},
		{name: "repeated key, escaped", value: `{"cpushares":409,"cpu\u0073hares":262144}`, err: []string{`repeated key "cpushares"`}},
		{name: "one share", value: `{"cpushares":1}`, err: []string{"cpushares is outside 2 to 262144"}},
		{name: "too many shares", value: `{"cpushares":262145}`, err: []string{"cpushares is outside 2 to 262144"}},
		{name: "negative shares", value: `{"cpushares":-2}`, err: []string{"cpushares is negative"}},
		{name: "negative limit", value: `{"cpushares":2,"cpulimit":-1}`, err: []string{"cpulimit is negative"}},
		{name: "limit too large", value: `{"cpulimit":1000000001}`, err: []string{"cpulimit is above 1000000000"}},
		{name: "beyond 64 bits", value: `{"cpushares":18446744073709551616}`, err: []string{"cpushares is too large"}},
		{name: "fraction", value: `{"cpushares":2.5}`, err: []string{"cpushares is not a whole number"}},
		{name: "exponent", value: `{"cpushares":1e3}`, err: []string{"cpushares is not a whole number"}},
		{name: "string", value: `{"cpushares":"409"}`, err: []string{"cpushares is not a number"}},
		{name: "null", value: `{"cpushares":null}`, err: []string{"cpushares is not a number"}},
		{name: "list", value: `{"cpushares":[409]}`, err: []string{"nested JSON"}},
		{name: "no JSON", value: `409`, err: []string{"not a JSON object"}},
		{name: "trailing brace", value: `{"cpushares":409}}`, err: []string{"text after the JSON object"}},
		{name: "huge", value: `{"cpushares":409` + strings.Repeat(" ", 1<<20) + `}`, err: []string{"too long"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			names := workload.Names{Domain: tt.domain}
			key := tt.key
			if key == "" {
				key = workload.Names{}.ResourcesKey("app")
			}
			got, found, err := names.ContainerResources(map[string]string{key: tt.value}, "management", "app")
			if got != tt.want || found == tt.notFound {
				t.Errorf("ContainerResources(%s: %.100s) = %+v, %t, want %+v, %t", key, tt.value, got, found, tt.want, !tt.notFound)
			}
			if tt.err != nil {
				tt.err = append(tt.err, "annotation "+key+": ")
			}
			checkError(t, err, tt.err)
		})
	}
}

func TestContainerResourcesPrefersTheNewForm(t *testing.T) {
	annotations := map[string]string{
		"resources.workload.openshift.io/app":            `{"cpushares":409}`,
		"io.openshift.workload.management.cpushares/app": "102",
	}
	got, found, err := workload.Names{}.ContainerResources(annotations, "management", "app")
	if want := (workload.Resources{Shares: 409}); got != want || !found || err != nil {
		t.Errorf("ContainerResources = %+v, %t, %v, want %+v, true, nil", got, found, err, want)
	}
}

// TestCheckOldForm checks that each annotation in the old form is read, or is an error with
// a remedy.
func TestCheckOldForm(t *testing.T) {
	for _, c := range []struct {
		domain, typ, key string
		want             []string // parts of the error; nil for none
	}{
		{"", "management", "io.openshift.workload.management.cpushares/app", nil},
		{"", "", "io.openshift.workload.infra.cpushares/app", nil}, // AnnotatedContainers returns it
		{"", "management", "resources.workload.openshift.io/app", nil},
		{"", "management", "target.workload.openshift.io/management", nil},
		{"", "management", "io.openshift.workload.management.cpuset/app", []string{"a pod cannot choose its CPUs: cpuset", "remove the annotation"}},
		{"", "", "io.openshift.workload.management.cpuset/app", []string{"a pod cannot choose its CPUs: cpuset", "remove the annotation"}},
		{"", "management", "io.openshift.workload.infra.cpuset/app", []string{"a pod cannot choose its CPUs: cpuset"}},
		{"", "management", "io.openshift.workload.management.cpuquota/app", []string{`unknown resource "cpuquota"`, "remove the annotation"}},
		{"", "management", "io.openshift.workload.management.CPUSet/app", []string{`unknown resource "CPUSet"`}},
		{"", "management", "io.openshift.workload.management/app", []string{"no resource in front of the slash", `write resources.workload.openshift.io/app: {"cpushares":N}, or remove it`}},
		{"", "management", "io.openshift.workload.infra.cpushares/app", []string{`it is for workload type "infra", and the pod asks for "management"`, "remove the annotation"}},
		{"cpu.example.org", "management", "org.example.cpu.management.cpuset/app", []string{"a pod cannot choose its CPUs: cpuset"}},
		{"cpu.example.org", "management", "org.example.cpu.management/app", []string{"write resources.cpu.example.org/app"}},
		{"cpu.example.org", "management", "io.openshift.workload.management.cpuset/app", nil},
	} {
		got := workload.Names{Domain: c.domain}.CheckOldForm(map[string]string{c.key: "0-3", "other/app": "x"}, c.typ)
		if len(got) > 1 || (len(got) == 1) != (c.want != nil) {
			t.Errorf("CheckOldForm(%q, %q) in domain %q = %v, want %q", c.key, c.typ, c.domain, got, c.want)
			continue
		}
		if len(got) == 0 {
			continue
		}
		if got[0].Key != c.key {
			t.Errorf("key of CheckOldForm(%q) = %q; want the same", c.key, got[0].Key)
		}
		checkError(t, got[0], append(c.want, "annotation "+c.key+`: value "0-3": `))
	}
}

func TestCheckOldFormIsSorted(t *testing.T) {
	annotations := map[string]string{}
	for _, key := range []string{"c", "a", "b"} {
		annotations["io.openshift.workload.management.cpuset/"+key] = "0"
	}
	var got string
	for _, err := range (workload.Names{}).CheckOldForm(annotations, "") {
		got += err.Key[strings.LastIndexByte(err.Key, '/')+1:]
	}
	if got != "abc" {
		t.Errorf("the errors are about containers %q, want abc", got)
	}
}
