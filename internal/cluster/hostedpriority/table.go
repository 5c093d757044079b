package hostedpriority

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// A Table has the sizes of clusters with their classes, the smallest first. The zero value is
// empty.
type Table struct {
	sizes     []row
	dedicated bool // the last size is for clusters with DedicatedKey
	values    bool // the table has values of classes
}

// row is a size. Pods of a role whose class has no name keep their class.
type row struct {
	name    string
	max     int64 // nodes
	classes [3]Class
}

// Table returns the table of a configuration without errors, see [Config.Check].
func (c *Config) Table() Table {
	t := Table{values: true}
	for _, s := range c.Sizes {
		r := row{name: s.Name, max: ptr.Deref(s.MaxNodes, math.MaxInt64), classes: [3]Class{APICritical: s.ControlPlane}}
		for _, c := range s.classes() {
			r.classes[c.role] = c.Class
		}
		t.sizes = append(t.sizes, r)
		t.dedicated = s.Dedicated
	}
	return t
}

// Sizes returns the names of sizes, the smallest first.
func (t Table) Sizes() (names []string) {
	for _, r := range t.sizes {
		names = append(names, r.name)
	}
	return names
}

// index returns the index of a size, -1 if the table has no size of that name.
func (t Table) index(name string) int {
	return slices.IndexFunc(t.sizes, func(r row) bool { return r.name == name })
}

// counted returns the index of the size for a number of nodes, -1 if no size fits.
func (t Table) counted(nodes int64) int {
	return slices.IndexFunc(t.sizes, func(r row) bool { return nodes <= r.max })
}

// sizingSize is an element of spec.sizes of HyperShift's ClusterSizingConfiguration
// (scheduling.hypershift.openshift.io/v1alpha1).
type sizingSize struct {
	Name     string `json:"name"`
	Criteria struct {
		From int64  `json:"from"`
		To   *int64 `json:"to"`
	} `json:"criteria"`
	Effects struct {
		ControlPlane string `json:"controlPlanePriorityClassName"`
		APICritical  string `json:"APICriticalPriorityClassName"`
		Etcd         string `json:"etcdPriorityClassName"`
	} `json:"effects"`
}

// ParseSizing returns the table of a ClusterSizingConfiguration. Its sizes must cover each
// number of nodes once, as HyperShift demands. A size without a class for a role gets the
// class of the next smaller size that has one: HyperShift keeps annotations of an earlier
// size.
func ParseSizing(data []byte) (Table, error) {
	var c struct {
		Spec struct {
			Sizes []sizingSize `json:"sizes"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return Table{}, fmt.Errorf("decode: %w", err)
	}
	sizes := c.Spec.Sizes
	slices.SortFunc(sizes, func(a, b sizingSize) int { return cmp.Compare(a.Criteria.From, b.Criteria.From) })
	if len(sizes) == 0 {
		return Table{}, errors.New("has no sizes")
	}
	var t Table
	var problems []error
	next := int64(0)
	for i, s := range sizes {
		r := row{name: s.Name, max: ptr.Deref(s.Criteria.To, math.MaxInt64)}
		if s.Name == "" || t.index(s.Name) >= 0 {
			problems = append(problems, fmt.Errorf("size %q: occurs twice, or has no name", s.Name))
		}
		if last := i == len(sizes)-1; s.Criteria.From != next || r.max < s.Criteria.From || last != (s.Criteria.To == nil) {
			problems = append(problems, fmt.Errorf("size %q: sizes leave out numbers of nodes or have some twice; write criteria like 0-10, 11-100, 101 and no end", s.Name))
		}
		if s.Criteria.To != nil {
			next = r.max + 1
		}
		for role, name := range map[Role]string{ControlPlane: s.Effects.ControlPlane, APICritical: s.Effects.APICritical, Etcd: s.Effects.Etcd} {
			if reason := badClass(name); name != "" && reason != "" {
				problems = append(problems, fmt.Errorf("size %q: class %q of %s: %s", s.Name, name, role, reason))
			}
			if r.classes[role].Name = name; name == "" && i > 0 {
				r.classes[role] = t.sizes[i-1].classes[role]
			}
		}
		t.sizes = append(t.sizes, r)
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return Table{}, errors.Join(problems...)
	}
	return t, nil
}
