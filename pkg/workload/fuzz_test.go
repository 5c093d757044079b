package workload_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func FuzzTarget(f *testing.F) {
	for _, value := range []string{effect, "", "{", "{}", `{"effect":1}`, effect + effect, `{"effect":"PreferredDuringScheduling","effect":"x"}`} {
		f.Add("management", value, "")
	}
	f.Add("", effect, "")
	f.Add("a/b", effect, "example.org")
	f.Add("a\nb", "\xff", ".")
	f.Fuzz(func(t *testing.T, typ, value, domain string) {
		names := workload.Names{Domain: domain}
		got, found, err := names.Target(map[string]string{names.TargetKey(typ): value})
		if !found {
			t.Fatalf("Target of its own key %q = not found; want found", names.TargetKey(typ))
		}
		if err != nil {
			if got != "" {
				t.Errorf("Target = %q with error %v, want no type", got, err)
			}
			checkError(t, err, []string{""})
			return
		}
		if got != typ || typ == "" {
			t.Errorf("Target = %q, want %q", got, typ)
		}
		// The lenient reader that OpenShift uses must agree with the accepted values.
		var m map[string]string
		if err := json.Unmarshal([]byte(value), &m); err != nil || len(m) != 1 || m["effect"] != "PreferredDuringScheduling" {
			t.Errorf("Target accepts %q, read as %v, %v; want one effect", value, m, err)
		}
	})
}

func FuzzContainerResources(f *testing.F) {
	for _, value := range []string{
		`{"cpushares":409,"cpulimit":500}`, `{"cpushares": 2}`, `{}`, `{"cpushares":-1}`, `{"cpushares":1e3}`, `{"cpuset":"0-3"}`,
		`{"cpushares":409,"cpushares":2}`, `{"cpushares":409} x`, `null`, `{"cpushares":18446744073709551616}`, `{"cpulimit":0.5}`,
	} {
		f.Add("app", value, false)
	}
	for _, value := range []string{"102", "0", "1", "+5", "-5", "262145", "0x10", "1_000", ""} {
		f.Add("app", value, true)
	}
	f.Fuzz(func(t *testing.T, container, value string, old bool) {
		var names workload.Names
		key := names.ResourcesKey(container)
		if old {
			key = "io.openshift.workload.management.cpushares/" + container
		}
		got, found, err := names.ContainerResources(map[string]string{key: value}, "management", container)
		if !found {
			t.Fatalf("ContainerResources of %q = not found; want found", key)
		}
		if err != nil {
			if got != (workload.Resources{}) {
				t.Errorf("ContainerResources = %+v with error %v, want nothing", got, err)
			}
			checkError(t, err, []string{""})
			return
		}
		if got.Shares != 0 && (got.Shares < workload.MinShares || got.Shares > workload.MaxShares) || got.LimitMilli < 0 {
			t.Errorf("ContainerResources(%q) = %+v; want values in range", value, got)
		}
		if old {
			if n, err := strconv.ParseUint(value, 10, 64); err != nil || n != got.Shares {
				t.Errorf("ContainerResources(%q) = %+v, want %d, %v", value, got, n, err)
			}
			return
		}
		var want struct {
			Shares uint64 `json:"cpushares"`
			Limit  int64  `json:"cpulimit"`
		}
		d := json.NewDecoder(strings.NewReader(value))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil || want.Shares != got.Shares || want.Limit != got.LimitMilli {
			t.Errorf("ContainerResources(%q) = %+v, want %+v, %v", value, got, want, err)
		}
	})
}

// FuzzNames checks that each annotation that gives a container resources is noticed: either
// AnnotatedContainers names the container, or CheckOldForm returns an error.
func FuzzNames(f *testing.F) {
	f.Add("resources.workload.openshift.io/app", "management", "")
	f.Add("io.openshift.workload.management.cpushares/app", "management", "")
	f.Add("io.openshift.workload.infra.cpushares/app", "management", "")
	f.Add("io.openshift.workload.management.cpuset/app", "management", "")
	f.Add("io.openshift.workload.management.cpulimit/app", "management", "")
	f.Add("io.openshift.workload.a.b.cpuset/app", "a.b", "")
	f.Add("io.openshift.workload.management/app", "management", "")
	f.Add("io.openshift.workload./", "management", "")
	f.Add("io.openshift.workload..cpushares/", "", "")
	f.Add("io.openshift.workload.management.cpuset", "management", "")
	f.Add("io.openshift.workload/app", "management", "")
	f.Add("io.openshift.workload.a/b.cpushares/c", "a/b", "")
	f.Add("org.example.a.cpushares/b", "a", "example.org")
	f.Add("org.example.cpu.a.cpuset/b", "a", "cpu.example.org")
	f.Add("....cpuset/b", "a", "..")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, key, typ, domain string) {
		names := workload.Names{Domain: domain}
		annotations := map[string]string{key: "1"}
		bad := names.CheckOldForm(annotations, typ)
		for _, err := range bad {
			checkError(t, err, []string{""})
		}
		containers := names.AnnotatedContainers(annotations, typ)
		for _, c := range containers {
			if typ == "" {
				continue // of whichever type
			}
			if _, found, _ := names.ContainerResources(annotations, typ, c); !found {
				t.Errorf("AnnotatedContainers(%q, %q) names %q, for which ContainerResources finds nothing", key, typ, c)
			}
		}
		old := isOldForm(key, domain)
		target := strings.HasPrefix(key, names.TargetKey(""))
		resources := strings.HasPrefix(key, names.ResourcesKey(""))
		if requests := names.Requests(key); requests != (old || target || resources) {
			t.Errorf("Requests(%q) in domain %q = %t; old form %t, target %t, resources %t; want %t", key, domain, requests, old, target, resources, (old || target || resources))
		}
		if noticed := len(bad) + len(containers); (old || resources) && noticed == 0 || !old && !resources && noticed > 0 {
			t.Errorf("%q, type %q, domain %q: errors = %v, containers = %q; want one of both for our keys only", key, typ, domain, bad, containers)
		}
	})
}

// isOldForm reports whether a key passes the check of deploy/webhook/trust.yaml in CEL,
// with startsWith and contains.
func isOldForm(key, domain string) bool {
	labels := strings.Split(cmp.Or(domain, "workload.openshift.io"), ".")
	slices.Reverse(labels)
	rest, ok := strings.CutPrefix(key, strings.Join(labels, ".")+".")
	return ok && strings.Contains(rest, "/")
}
