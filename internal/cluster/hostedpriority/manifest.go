package hostedpriority

import (
	"fmt"
	"math"
	"strings"
)

// Manifests returns the PriorityClasses of a configuration in YAML, as in
// deploy/webhook/hosted-priority. As in the proposal, pods of a higher class preempt pods of a
// lower one.
func (c *Config) Manifests() string {
	var b strings.Builder
	b.WriteString(`# The priority classes of hosted control planes, by the size of the cluster (docs/how-to/hosted-control-planes.md). Made from the sizes of the webhook's
# configuration: cpupool-webhook --priority-classes prints the classes of another one.
`)
	least := int64(0)
	for i, r := range c.Table().sizes {
		size := &c.Sizes[i]
		whose := "dedicated hosted clusters"
		switch {
		case size.Dedicated:
		case r.max == math.MaxInt64:
			whose = fmt.Sprintf("hosted clusters with %d worker nodes and more", least)
		default:
			whose = fmt.Sprintf("hosted clusters with %d to %d worker nodes", least, r.max)
			least = r.max + 1
		}
		for _, c := range size.classes() {
			manifest(&b, c.Class, [...]string{"Control planes", "API servers", "etcd"}[c.role]+" of "+whose+".")
		}
	}
	return b.String()
}

func manifest(b *strings.Builder, c Class, description string) {
	if strings.Contains(b.String(), "kind:") {
		b.WriteString("---\n")
	}
	fmt.Fprintf(b, `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: %s
value: %d
globalDefault: false
preemptionPolicy: PreemptLowerPriority
description: %s
`, c.Name, c.Value, description)
}
