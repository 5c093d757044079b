package verdict

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Unknown is an [Amount] that is not known.
const Unknown = -1

// Pod holds the facts about a pod that a sentence can state. Each of them may be missing.
type Pod struct {
	Name string
	// Pending is true if the pod has no node yet.
	Pending bool
	// Annotations are the annotations that the node or the API server has. Labels request nothing.
	Annotations, Labels map[string]string
	// Containers are all containers, in the order in which they start.
	Containers []Container
	// Total holds the resources of the whole pod (spec.resources), nil without them. They alone
	// decide about the QoS class.
	Total *Container
	// Names are the names of the annotations, Types the workload types with a pool.
	Names workload.Names
	Types []string
}

// Container holds the facts about a container.
type Container struct {
	// Kind is the noun in front of the name: container, sidecar or init container.
	Kind, Name  string
	CPU, Memory Amount
}

// Amount is an amount of CPU in thousandths, or of memory in bytes. 0 means that the field is
// missing. A limit without a request is also the request.
type Amount struct{ Request, Limit int64 }

// OnNode returns the facts that a runtime has about a container, with the memory limit that the
// kernel has. The runtime has no memory request.
func OnNode(c *pools.Container, memoryLimit int64) Container {
	f := Container{Kind: "container", Name: c.Name, CPU: Amount{Unknown, Unknown}, Memory: Amount{Unknown, memoryLimit}}
	r := &c.Resources
	if r.Shares > 0 && r.Shares < maxShares { // the maximum stands for all larger requests
		f.CPU.Request = (int64(r.Shares)*1000 + sharesPerCPU - 1) / sharesPerCPU
	}
	switch {
	case r.Quota > 0:
		period := cmp.Or(max(r.Period, 0), quotaPeriod)
		if f.CPU.Limit = (min(r.Quota, maxQuota)*1000 + period - 1) / period; f.CPU.Limit <= leastLimit {
			f.CPU.Limit = Unknown
		}
	case r.Period > 0: // without a period, the kubelet may be configured without quotas
		f.CPU.Limit = 0
	}
	return f
}

// The kubelet's shares of a CPU and its period, the kernel's maxima, and the limit in thousandths
// of a CPU that the least quota has (kubelet cm, MinQuotaPeriod).
const (
	sharesPerCPU = 1024
	maxShares    = 262144
	quotaPeriod  = 100_000
	maxQuota     = 1 << 44
	leastLimit   = 10
)

// gap is a field of a container that keeps its pod from QoS class Guaranteed.
type gap struct {
	// has completes "the container has ...".
	has string
	// field is the path of the field in the container.
	field string
}

// gaps returns the gaps of a container. An unknown amount causes no gap.
func (c *Container) gaps() (all []gap) {
	for _, r := range [...]struct {
		name, field string
		Amount
	}{{"CPU", "cpu", c.CPU}, {"memory", "memory", c.Memory}} {
		switch {
		case r.Limit == 0:
			all = append(all, gap{"no " + r.name + " limit", "resources.limits." + r.field})
		case r.Limit != Unknown && r.Request != Unknown && r.Request != r.Limit:
			all = append(all, gap{"a " + r.name + " request below its limit", "resources.requests." + r.field})
		}
	}
	return all
}

// mostNamed is the number of containers that a sentence names.
const mostNamed = 3

// class returns the containers and the fields that give the pod its QoS class, as the end of
// "because", the fields to set, and the first of the containers. It returns nothing if the known facts do not explain the
// class.
func (p *Pod) class() (because, fields, first string) {
	containers := p.Containers
	if p.Total != nil {
		containers = []Container{*p.Total}
	}
	var have, set []string
	more := 0
	for _, c := range containers {
		gaps := c.gaps()
		if len(gaps) == 0 {
			continue
		}
		first = cmp.Or(first, c.Name)
		if len(have) == mostNamed {
			more++
			continue
		}
		has, field := gaps[0].has, gaps[0].field
		if len(gaps) > 1 {
			has, field = has+" and "+gaps[1].has, field+" and "+gaps[1].field
		}
		where := c.named()
		if p.Total != nil {
			field = strings.ReplaceAll(field, "resources.", "")
		}
		have, set = append(have, "its "+where+" has "+has), append(set, field+" of "+where)
	}
	if len(have) == 0 {
		return "", "", ""
	}
	because, fields = join(have), join(set)
	if more > 0 {
		because += " (and " + layout.Count(more, "container") + " more)"
		fields += " and the limits of CPU and memory of " + layout.Count(more, "container") + " more"
	}
	return because, fields, first
}

// named returns the kind and the name, as in "container du".
func (c *Container) named() string { return strings.TrimSpace(c.Kind + " " + clip(c.Name)) }

// join lists texts with commas, and "and" before the last.
func join(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// clip makes a name of a manifest fit for a line: names that the API server accepts stay.
func clip(name string) string {
	const limit = 253
	if len(name) > limit {
		return strconv.Quote(name[:limit]) + "..."
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		return strconv.Quote(name)
	}
	return name
}
