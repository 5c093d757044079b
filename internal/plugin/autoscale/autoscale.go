// Package autoscale describes nodes that do not exist yet to the programs that create nodes:
// cluster-autoscaler with Cluster API, and Karpenter. The amounts are the daemon's: see package
// capacity.
package autoscale

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Format is a format that Render writes.
type Format string

// Annotations are annotations of a MachineDeployment, MachineSet or MachinePool of Cluster API, for
// cluster-autoscaler. Capacity is the status of a machine template of an infrastructure provider,
// for the same program. Karpenter is a NodeOverlay.
const (
	Annotations Format = "clusterapi"
	Capacity    Format = "clusterapi-capacity"
	Karpenter   Format = "karpenter"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Annotations, Capacity, Karpenter} }

// Options describes the machines further.
type Options struct {
	// Memory is the memory of a machine. 0 leaves it out.
	Memory resource.Quantity
	// Name is the name of a NodeOverlay.
	Name string
	// Requirements select the instance types of a NodeOverlay: a label, "=", and values with
	// commas between them.
	Requirements []string
}

// prefix is the prefix of the annotations (cluster-autoscaler, clusterapi_utils.go).
const prefix = "capacity.cluster-autoscaler.kubernetes.io/"

// mostRequirements is the maximum of a NodeOverlay (its CRD).
const mostRequirements = 100

// node is a node without pods.
type node struct {
	resources []capacity.Pool
	cpus      int
	taint     string // the daemon removes it; empty without one
}

// Render describes nodes with a configuration and a machine. It returns the name of the file and its
// content. It returns an error if the daemon advertises nothing, or if the format has no place for
// the resources.
func Render(c *config.Config, t *topology.Topology, format Format, o Options) (name string, data []byte, err error) {
	n, err := newNode(c, t)
	var comment string
	var object any
	if err == nil {
		switch format {
		case Annotations:
			name = "machinedeployment-patch.yaml"
			comment, object, err = n.annotations(o)
		case Capacity:
			name = "machinetemplate-status-patch.yaml"
			comment, object = n.capacity(o)
		case Karpenter:
			name = "nodeoverlay.yaml"
			comment, object, err = n.overlay(o)
		default:
			err = fmt.Errorf("%q is no format; write one of %s", format, Formats())
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", format, err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Extended resources of nodes with %d CPUs and this configuration of cpupoold.\n%s", n.cpus, comment)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = errors.Join(e.Encode(object), e.Close())
	return name, b.Bytes(), err
}

func newNode(c *config.Config, t *topology.Topology) (*node, error) {
	if t == nil {
		return nil, errors.New("the amounts depend on the machine; give it with --topology")
	}
	if key, value := c.AdvertisesNone(); key != "" {
		return nil, fmt.Errorf("%s is %s: the daemon advertises no extended resources, so nothing describes a new node", key, value)
	}
	simulated, err := simulate.NewNode(c, t, nil)
	if err != nil {
		return nil, err
	}
	return &node{simulated.Resources(), t.Online.Len(), c.Node.StartupTaint}, nil
}

// amount returns an amount as quantities in YAML have it.
func amount(p capacity.Pool) string { return strconv.FormatInt(p.Milli, 10) }

// autoscalerTaint returns the comment about the startup taint for cluster-autoscaler.
func (n *node) autoscalerTaint() string {
	if n.taint == "" {
		return ""
	}
	return "# Start cluster-autoscaler with --startup-taint=" + n.taint + ".\n"
}

// annotations returns the metadata of a node group. The annotations have room for one extended
// resource: the autoscaler takes the value of gpu-type for its name, whatever it is
// (clusterapi_unstructured.go, InstanceCapacity).
func (n *node) annotations(o Options) (comment string, object any, err error) {
	if len(n.resources) > 1 {
		var names []string
		for _, r := range n.resources {
			names = append(names, r.Resource)
		}
		return "", nil, fmt.Errorf("the annotations have room for one extended resource, and the node has %d: %s; write them into the status of the machine template with --format %s",
			len(names), strings.Join(names, ", "), Capacity)
	}
	all := map[string]string{
		prefix + "cpu":       strconv.Itoa(n.cpus),
		prefix + "gpu-type":  n.resources[0].Resource,
		prefix + "gpu-count": amount(n.resources[0]),
	}
	if !o.Memory.IsZero() {
		all[prefix+"memory"] = o.Memory.String()
	}
	return "# kubectl patch machinedeployment NAME --type merge --patch-file FILE\n" + n.autoscalerTaint(),
		map[string]any{"metadata": map[string]any{"annotations": all}}, nil
}

func (n *node) capacity(o Options) (comment string, object any) {
	all := map[string]string{"cpu": strconv.Itoa(n.cpus)}
	for _, r := range n.resources {
		all[r.Resource] = amount(r)
	}
	if !o.Memory.IsZero() {
		all["memory"] = o.Memory.String()
	}
	return "# kubectl patch KIND-OF-TEMPLATE NAME --subresource status --type merge --patch-file FILE\n" + n.autoscalerTaint(),
		map[string]any{"status": map[string]any{"capacity": all}}
}

type requirement struct {
	Key      string   `yaml:"key"`
	Operator string   `yaml:"operator"`
	Values   []string `yaml:"values,flow"`
}

// overlay returns a NodeOverlay (karpenter.sh/v1alpha1, nodeoverlay.go).
func (n *node) overlay(o Options) (comment string, object any, err error) {
	if msgs := validation.IsDNS1123Subdomain(o.Name); len(msgs) > 0 {
		return "", nil, fmt.Errorf("%q is no name of an object; write one like cpupoold with --overlay-name", o.Name)
	}
	required, err := requirements(o.Requirements)
	if err != nil {
		return "", nil, err
	}
	all := map[string]string{}
	for _, r := range n.resources {
		all[r.Resource] = amount(r)
	}
	if n.taint != "" {
		comment = "# Add " + n.taint + " to spec.template.spec.startupTaints of the NodePools.\n"
	}
	return comment, map[string]any{
		"apiVersion": "karpenter.sh/v1alpha1",
		"kind":       "NodeOverlay",
		"metadata":   map[string]string{"name": o.Name},
		"spec":       map[string]any{"requirements": required, "capacity": all},
	}, nil
}

func requirements(texts []string) ([]requirement, error) {
	if len(texts) == 0 {
		return nil, errors.New("a NodeOverlay without requirements is for all instance types, and the amounts are for one machine; " +
			"give the instance types, for example --requirement node.kubernetes.io/instance-type=m7i.8xlarge")
	}
	if len(texts) > mostRequirements {
		return nil, fmt.Errorf("%d requirements; a NodeOverlay has at most %d", len(texts), mostRequirements)
	}
	all := make([]requirement, 0, len(texts))
	for _, text := range texts {
		key, values, _ := strings.Cut(text, "=")
		r := requirement{key, "In", strings.Split(values, ",")}
		bad := len(validation.IsQualifiedName(key)) > 0
		for _, value := range r.Values {
			bad = bad || value == "" || len(validation.IsValidLabelValue(value)) > 0
		}
		if bad {
			return nil, fmt.Errorf("requirement %q: not a label and its values; write KEY=VALUE or KEY=VALUE,VALUE", text)
		}
		if slices.ContainsFunc(all, func(other requirement) bool { return other.Key == key }) {
			return nil, fmt.Errorf("requirement %q: there is another one for %s, and an instance type must have both; write all values into one", text, key)
		}
		all = append(all, r)
	}
	return all, nil
}
