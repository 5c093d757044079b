package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/quota"
)

// clusterQueue holds the fields of a ClusterQueue or a Cohort that decide here. They are the same
// in v1beta1, v1beta2 and v1 (kueue 0.16, apis/kueue).
type clusterQueue struct {
	Spec struct {
		Groups []struct {
			Covered []string `json:"coveredResources"`
			Flavors []struct {
				Name      string `json:"name"`
				Resources []struct {
					Name  string            `json:"name"`
					Quota resource.Quantity `json:"nominalQuota"`
				} `json:"resources"`
			} `json:"flavors"`
		} `json:"resourceGroups"`
		Exclude []string `json:"excludeResourcePrefixes"`
	} `json:"spec"`
}

// kueueConfig holds the fields of a Configuration of Kueue that decide here (apis/config).
type kueueConfig struct {
	Resources struct {
		Exclude         []string `json:"excludeResourcePrefixes"`
		Strategy        string   `json:"quotaCheckStrategy"`
		Transformations []struct {
			Input    string `json:"input"`
			Strategy string `json:"strategy"`
		} `json:"transformations"`
	} `json:"resources"`
}

// kindOf returns the group and the kind of an object.
func kindOf(o *manifest.Object) string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return group + " " + o.Kind
}

// isQueue reports whether an object is a ClusterQueue or a Cohort.
func isQueue(o *manifest.Object) bool {
	kind := kindOf(o)
	return kind == "kueue.x-k8s.io ClusterQueue" || kind == "kueue.x-k8s.io Cohort"
}

// embedded is a Configuration of Kueue, and the key of the ConfigMap that holds it.
type embedded struct {
	key    string
	object manifest.Object
}

// kueueConfigs returns the Configurations of Kueue in an object, which is one itself or a
// ConfigMap.
func kueueConfigs(o *manifest.Object) []embedded {
	const group = "config.kueue.x-k8s.io"
	if kindOf(o) == group+" Configuration" {
		return []embedded{{"", *o}}
	}
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if o.APIVersion != "v1" || o.Kind != "ConfigMap" || o.Decode(&configMap) != nil {
		return nil
	}
	var all []embedded
	for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
		if !strings.Contains(configMap.Data[key], group+"/") {
			continue
		}
		objects, _ := manifest.Objects([]byte(configMap.Data[key])) // the text can be of another program
		for _, inner := range objects {
			if kindOf(&inner) == group+" Configuration" {
				all = append(all, embedded{key, inner})
			}
		}
	}
	return all
}

// lookKueue records the Configurations and the covered resources of the present object.
func (l *linter) lookKueue() {
	for _, e := range kueueConfigs(&l.object) {
		var c kueueConfig
		if e.object.Decode(&c) == nil { // checkKueueConfig reports an error
			l.kueue = append(l.kueue, c)
		}
	}
	var q clusterQueue
	if isQueue(&l.object) && l.object.Decode(&q) == nil { // checkQueue reports an error
		for _, group := range q.Spec.Groups {
			l.covered = append(l.covered, group.Covered...)
		}
	}
}

// poolResources returns the resources of pools that pods of the cluster request.
func (l *linter) poolResources() []string {
	var all []string
	if l.Admission.SharedCPUs {
		all = append(all, l.Admission.Names.SharedResource())
	}
	if l.Admission.GuaranteedCPUs {
		all = append(all, l.Admission.Names.GuaranteedResource())
	}
	for _, typ := range slices.Sorted(maps.Keys(l.Admission.Types)) {
		used := slices.Contains(slices.Collect(maps.Values(l.asking)), typ)
		for _, annotations := range l.namespaces {
			allowed, _ := l.Admission.Names.Allowed(annotations, typ)
			used = used || allowed
		}
		if used && l.Admission.Types[typ] {
			all = append(all, l.Admission.Names.CoresResource(typ))
		}
	}
	return all
}

// exclusion returns the field and the value by which a Configuration of the files, or the present
// ClusterQueue, excludes a resource from quotas; "" if none does.
func (l *linter) exclusion(name string, own []string) string {
	for _, prefix := range own {
		if strings.HasPrefix(name, prefix) {
			return "excludeResourcePrefixes " + strconv.Quote(prefix)
		}
	}
	for i := range l.kueue {
		r := &l.kueue[i].Resources
		for _, prefix := range r.Exclude {
			if strings.HasPrefix(name, prefix) {
				return "excludeResourcePrefixes " + strconv.Quote(prefix) + " of the Configuration"
			}
		}
		for _, t := range r.Transformations {
			if t.Input == name && t.Strategy == "Replace" {
				return "transformations " + strconv.Quote(name) + " of the Configuration"
			}
		}
	}
	return ""
}

// checkQueue finds a ClusterQueue that admits no pods with the resources of pools, and quotas for
// these resources that were meant in CPUs or have no effect.
func (l *linter) checkQueue() {
	var q clusterQueue
	if !l.read(&q) {
		return
	}
	var covered []string
	for i, group := range q.Spec.Groups {
		covered = append(covered, group.Covered...)
		for j, flavor := range group.Flavors {
			for _, r := range flavor.Resources {
				if !l.Admission.Names.IsPool(r.Name) {
					continue
				}
				effect, found := quota.OfAmount(l.Admission.Names, r.Name, r.Quota)
				if by := l.exclusion(r.Name, q.Spec.Exclude); by != "" {
					effect, found = quota.Effect{Text: "has no effect, because of " + by, Remedy: "remove one of the two"}, true
				}
				if found {
					line := l.object.Line("spec", "resourceGroups", strconv.Itoa(i), "flavors", strconv.Itoa(j), "resources", r.Name, "nominalQuota")
					l.find(line, fmt.Sprintf("nominalQuota %s of %s in flavor %s %s", r.Quota.String(), r.Name, strconv.Quote(flavor.Name), effect.Text), effect.Remedy)
				}
			}
		}
	}
	// A Configuration can let Kueue ignore resources that a ClusterQueue does not cover.
	ignores := func(c kueueConfig) bool { return c.Resources.Strategy == "IgnoreUndeclared" }
	if l.object.Kind == "Cohort" || !slices.Contains(covered, "cpu") || slices.ContainsFunc(l.kueue, ignores) {
		return
	}
	missing := slices.DeleteFunc(l.poolResources(), func(name string) bool {
		return slices.Contains(covered, name) || l.exclusion(name, q.Spec.Exclude) != ""
	})
	if len(missing) > 0 {
		l.find(l.object.Line("spec", "resourceGroups"),
			fmt.Sprintf("coveredResources has cpu and not %s: Kueue admits no pod that the webhook gives this resource", strings.Join(missing, ", ")),
			"add it to coveredResources with a quota in thousandths of a CPU, or to excludeResourcePrefixes of Kueue's Configuration")
	}
}

// checkKueueConfig finds prefixes in a Configuration of Kueue that exclude no resource, and
// resources of pools that are missing among its prefixes.
func (l *linter) checkKueueConfig() {
	for _, e := range kueueConfigs(&l.object) {
		line := func(path ...string) int {
			if e.key != "" {
				return l.object.Line("data", e.key)
			}
			return l.object.Line(path...)
		}
		var c kueueConfig
		if err := e.object.Decode(&c); err != nil {
			l.find(line("resources"), "it cannot be read: "+err.Error(), "correct it")
			continue
		}
		pools := 0
		for i, prefix := range c.Resources.Exclude {
			at := line("resources", "excludeResourcePrefixes", strconv.Itoa(i))
			name := strings.TrimPrefix(strings.TrimPrefix(prefix, "requests."), "limits.")
			if name != prefix && l.Admission.Names.IsPool(name) {
				l.find(at, fmt.Sprintf("excludeResourcePrefixes %q excludes no resource", prefix), "write "+name)
			}
			if slices.ContainsFunc(l.poolResources(), func(name string) bool { return strings.HasPrefix(name, prefix) }) {
				pools++
			}
		}
		missing := slices.DeleteFunc(l.poolResources(), func(name string) bool {
			return slices.Contains(l.covered, name) || l.exclusion(name, nil) != ""
		})
		if pools > 0 && len(missing) > 0 {
			l.find(line("resources", "excludeResourcePrefixes"),
				fmt.Sprintf("excludeResourcePrefixes has resources of pools and not %s: Kueue admits no pod that the webhook gives this resource", strings.Join(missing, ", ")),
				"add "+strings.Join(missing, ", "))
		}
	}
}
