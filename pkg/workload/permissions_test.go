package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// noon, minute and hour are in nanoseconds.
const (
	minute = 60 * 1e9
	hour   = 60 * minute
	noon   = 1_800_000_000 * 1e9
)

func allowing(types string) map[string]string {
	return map[string]string{"workload.openshift.io/allowed": types}
}

// TestPermissions checks that running pods keep their permissions after a change, and
// that later pods do not get them.
func TestPermissions(t *testing.T) {
	var names workload.Names
	var none workload.Permissions
	if none.Allows("a", "management", 0) {
		t.Error("zero value allows a type; want none")
	}
	first := none.With(names, "a", allowing("management,infra"), noon)
	second := first.With(names, "a", allowing("infra"), noon+hour)
	again := second.With(names, "a", allowing("infra,management"), noon+2*hour)
	gone := first.Without("a", noon+hour)
	before, after := int64(noon+minute), int64(noon+61*minute)
	for _, c := range []struct {
		name string
		p    workload.Permissions
		typ  string
		made int64
		want bool
	}{
		{"allowed", first, "management", 0, true},
		{"another type", first, "telemetry", before, false},
		{"ended, made before", second, "management", before, true},
		{"ended, made after", second, "management", after, false},
		{"ended, being made", second, "management", 0, false},
		{"still allowed", second, "infra", after, true},
		{"allowed again", again, "management", after, true},
		{"deleted, made before", gone, "infra", before, true},
		{"deleted, being made", gone, "infra", 0, false},
		{"first is as it was", first, "management", after, true},
	} {
		if got := c.p.Allows("a", c.typ, c.made); got != c.want {
			t.Errorf("%s = %t; want %t", c.name, got, c.want)
		}
	}
}

// TestPermissionsAreBounded checks that namespaces without permissions, and ended ones,
// take no memory.
func TestPermissionsAreBounded(t *testing.T) {
	var names workload.Names
	p := workload.Permissions{}.With(names, "silent", map[string]string{"a": "b"}, noon)
	p = p.Without("unknown", noon)
	if len(p) != 0 {
		t.Errorf("%v; want nothing", p)
	}
	p = p.With(names, "a", allowing("management"), noon).Without("a", noon+hour)
	kept := p.With(names, "b", allowing("x"), noon+24*hour)
	later := p.With(names, "b", allowing("x"), noon+26*hour)
	if _, a := kept["a"]; !a {
		t.Errorf("%v; want a, which ended less than a day before", kept)
	}
	if _, a := later["a"]; a || len(later) != 1 {
		t.Errorf("%v; want b alone", later)
	}
	many := p.With(names, "a", allowing(strings.Repeat("x,", 1000)+strings.Repeat("y", 64)+",management"), noon)
	if diff := cmp.Diff([]string{"management", "x"}, many["a"].Types); diff != "" {
		t.Errorf("types of a list that is far too long (-want +got):\n%s", diff)
	}
}
