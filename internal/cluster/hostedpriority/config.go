package hostedpriority

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// HighestValue is the maximum value of a class of users (scheduling API,
// HighestUserDefinablePriority).
const HighestValue = 1_000_000_000

// Config configures the priority classes of hosted control planes.
type Config struct {
	// Enabled gives pods of hosted control planes the class of their cluster's size.
	// Default: false.
	Enabled bool `yaml:"enabled"`
	// SizesFrom is the source of sizes and their classes: config, which is this file, or
	// ClusterSizingConfiguration, HyperShift's object. Default: config.
	SizesFrom SizesFrom `yaml:"sizesFrom"`
	// Sizes are the sizes of clusters by their number of worker nodes, the smallest first.
	Sizes []Size `yaml:"sizes"`
}

// SizesFrom is the source of sizes.
type SizesFrom string

// Sources of sizes. FromSizing ignores [Config.Sizes].
const (
	FromConfig SizesFrom = "config"
	FromSizing SizesFrom = "ClusterSizingConfiguration"
)

// A Size holds the classes of clusters up to a number of worker nodes.
type Size struct {
	Name string `yaml:"name"`
	// MaxNodes is the largest number of worker nodes. Nil: no limit.
	MaxNodes *int64 `yaml:"maxNodes,omitempty"`
	// Dedicated means that [DedicatedKey] gives clusters this size, not their number of nodes.
	Dedicated bool `yaml:"dedicated,omitempty"`
	// ControlPlane and Etcd are the classes. APICritical is optional: without it, pods of
	// that role get ControlPlane, as in the proposal.
	ControlPlane Class  `yaml:"controlPlane"`
	APICritical  *Class `yaml:"apiCritical,omitempty"`
	Etcd         Class  `yaml:"etcd"`
}

// A Class is a priority class.
type Class struct {
	Name string `yaml:"name"`
	// Value is -2147483648..1000000000.
	Value int64 `yaml:"value"`
}

// sizeClass is the class of a role, with its key in a size.
type sizeClass struct {
	role  Role
	field string
	Class
}

// classes returns the classes of a size in the order of their priority.
func (s *Size) classes() []sizeClass {
	all := []sizeClass{{ControlPlane, ".controlPlane", s.ControlPlane}}
	if s.APICritical != nil {
		all = append(all, sizeClass{APICritical, ".apiCritical", *s.APICritical})
	}
	return append(all, sizeClass{Etcd, ".etcd", s.Etcd})
}

// Default returns the configuration without any key: the sizes of the proposal. The proposal
// has 101-300 for xl and 300+ for xxl; here, 300 is xl.
func Default() Config {
	c := Config{SizesFrom: FromConfig}
	limits := []int64{10, 25, 50, 100, 300}
	for i, name := range []string{"xs", "s", "m", "l", "xl", "xxl", "dedicated"} {
		value := int64(i+1) * 1_000_000
		size := Size{
			Name: name, ControlPlane: Class{"hypershift-" + name, value}, Etcd: Class{"hypershift-etcd-" + name, value + 500_000},
			Dedicated: name == "dedicated",
		}
		if i < len(limits) {
			size.MaxNodes = &limits[i]
		}
		c.Sizes = append(c.Sizes, size)
	}
	return c
}

// Check calls wrong for each error, with the key in a configuration file that has the Config
// as hostedPriority, its value, and a remedy.
func (c *Config) Check(wrong func(key, value, reason string)) {
	const key = "hostedPriority."
	if c.SizesFrom != FromConfig && c.SizesFrom != FromSizing {
		wrong(key+"sizesFrom", string(c.SizesFrom), "write config or ClusterSizingConfiguration")
	}
	if len(c.Sizes) == 0 {
		wrong(key+"sizes", "[]", "the list is empty; leave the key out, or write a size without maxNodes")
		return
	}
	k := checker{names: map[string]bool{}, classes: map[string]bool{}, wrong: wrong}
	for i := range c.Sizes {
		k.size(key+"sizes["+strconv.Itoa(i)+"]", &c.Sizes[i])
	}
	if !k.open {
		wrong(key+"sizes", c.Sizes[len(c.Sizes)-1].Name, "each size has maxNodes; leave it out of the largest one, or clusters with more nodes get no size")
	}
}

// checker holds facts of the sizes that were checked so far.
type checker struct {
	names, classes map[string]bool
	open           bool  // a size without limit exists
	limit          int64 // MaxNodes of the previous size
	dedicated      bool
	values         []sizeClass // of previous sizes
	wrong          func(key, value, reason string)
}

func (k *checker) size(key string, s *Size) {
	if msgs := validation.IsDNS1123Label(s.Name); len(msgs) > 0 {
		k.wrong(key+".name", s.Name, "is no name of a size; write lower case letters, digits and -")
	} else if k.names[s.Name] {
		k.wrong(key+".name", s.Name, "occurs twice")
	}
	k.names[s.Name] = true
	k.bounds(key, s)
	classes := s.classes()
	for i, c := range classes {
		k.class(key+c.field, c.Class)
		if i > 0 && c.Value <= classes[i-1].Value {
			reason := "must be more than the value of controlPlane"
			if c.role == Etcd {
				reason = "must be more than the values of the size's other classes: etcd is preempted last"
			}
			k.wrong(key+c.field+".value", strconv.FormatInt(c.Value, 10), reason)
		}
	}
	k.order(key, s)
}

func (k *checker) bounds(key string, s *Size) {
	limit := "none"
	if s.MaxNodes != nil {
		limit = strconv.FormatInt(*s.MaxNodes, 10)
	}
	switch {
	case k.dedicated:
		k.wrong(key+".name", s.Name, "comes after the dedicated size; that is the last one, and there is one at most")
	case s.Dedicated && s.MaxNodes != nil:
		k.wrong(key+".maxNodes", limit, "the dedicated size is not for a number of nodes; remove it")
	case s.Dedicated:
	case k.open:
		k.wrong(key+".name", s.Name, "comes after a size without maxNodes; no cluster is larger")
	case s.MaxNodes != nil && (*s.MaxNodes < 0 || *s.MaxNodes > 1_000_000):
		k.wrong(key+".maxNodes", limit, "is out of range; write 0 to 1000000, or nothing for no limit")
	case s.MaxNodes != nil && len(k.values) > 0 && *s.MaxNodes <= k.limit:
		k.wrong(key+".maxNodes", limit, "must be more than maxNodes of the previous size, "+strconv.FormatInt(k.limit, 10))
	}
	k.dedicated = k.dedicated || s.Dedicated
	if !s.Dedicated {
		k.open = k.open || s.MaxNodes == nil
		if s.MaxNodes != nil {
			k.limit = *s.MaxNodes
		}
	}
}

func (k *checker) class(key string, c Class) {
	if reason := badClass(c.Name); reason != "" {
		k.wrong(key+".name", c.Name, reason)
	} else if k.classes[c.Name] {
		k.wrong(key+".name", c.Name, "occurs twice")
	}
	k.classes[c.Name] = true
	if c.Value > HighestValue || c.Value < -1<<31 {
		k.wrong(key+".value", strconv.FormatInt(c.Value, 10), fmt.Sprintf("is out of range; write %d to %d; higher values are reserved for the system", -1<<31, HighestValue))
	}
}

// order compares the values of a size with the values of smaller sizes. The value of each role
// must be higher, no value may occur twice, and the dedicated size must have the highest.
func (k *checker) order(key string, s *Size) {
	for _, c := range s.classes() {
		for _, before := range k.values {
			value, than := strconv.FormatInt(c.Value, 10), before.Name+", "+strconv.FormatInt(before.Value, 10)
			if c.Value == before.Value {
				k.wrong(key+c.field+".value", value, "is the value of "+before.Name+", too; write another one")
				break
			}
			if c.Value < before.Value && (c.role == before.role || s.Dedicated) {
				k.wrong(key+c.field+".value", value, "must be more than the value of "+than)
				break
			}
		}
	}
	k.values = append(k.values, s.classes()...)
}

// badClass describes the error in the name of a class for pods. It returns "" if the name is
// valid.
func badClass(name string) string {
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "is no name of a priority class; write at most 253 lower case letters, digits, - and ., a letter or digit first and last"
	case strings.HasPrefix(name, "system-"):
		return "is a class of the system's; write one that does not begin with system-"
	case name == operatorClass:
		return "is the class of HyperShift's operator, which must outlive what it operates; write another one"
	}
	if _, base := RoleOf(name); base {
		return "is HyperShift's own class, which this feature replaces; write another one"
	}
	return ""
}

const operatorClass = "hypershift-operator"

// Manifests returns the PriorityClasses of a configuration in YAML, as in
// deploy/webhook/hosted-priority. As in the proposal, pods of a higher class preempt pods of a
// lower one.
func (c *Config) Manifests() string {
	var b strings.Builder
	separator := ""
	b.WriteString(`# The priority classes of hosted control planes, by the size of the cluster (docs/how-to/hosted-control-planes.md). Made from the sizes of the webhook's
# configuration: cpupool-webhook --priority-classes prints the classes of another one.
`)
	least := int64(0)
	for i, r := range c.Table().sizes {
		size := &c.Sizes[i]
		clusters := "dedicated hosted clusters"
		switch {
		case size.Dedicated:
		case r.max == math.MaxInt64:
			clusters = fmt.Sprintf("hosted clusters with %d worker nodes and more", least)
		default:
			clusters = fmt.Sprintf("hosted clusters with %d to %d worker nodes", least, r.max)
			least = r.max + 1
		}
		for _, c := range size.classes() {
			fmt.Fprintf(&b, `%sapiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: %s
value: %d
globalDefault: false
preemptionPolicy: PreemptLowerPriority
description: %s of %s.
`, separator, c.Name, c.Value, [...]string{"Control planes", "API servers", "etcd"}[c.role], clusters)
			separator = "---\n"
		}
	}
	return b.String()
}
