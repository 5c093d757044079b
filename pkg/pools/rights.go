package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// NamespaceRights are the workload types that namespaces allow by their annotations.
type NamespaceRights struct {
	Asked bool // annotations of namespaces have an effect
	workload.Permissions
	Current bool // they are up to date; otherwise some may be missing
}

// may reports whether a pod may be in a partition, and reports a problem otherwise.
func (c *classifier) may(p *Pod, partition *Partition) bool {
	if p.Static() {
		return c.staticMay(p, partition)
	}
	if slices.Contains(partition.Namespaces, p.Namespace) {
		return true
	}
	code, text := CodeNamespaceNotListed, "namespace "+clip(p.Namespace)+" is not among the namespaces of partition "+partition.Type
	if n := &c.in.Namespaces; n.Asked {
		if n.Allows(p.Namespace, partition.Type, p.CreatedAt) {
			return true
		}
		if n.Current {
			text += ", nor does its annotation " + c.in.Names.AllowedKey() + " allow the type"
		} else {
			code = CodeNamespaceUnknown
			text += ", and not known to allow the type: the API server does not answer"
		}
	}
	if p.claimsStatic() {
		text += ", and the pod only claims to be static: its UID and " + hashKey + " differ from the values that the kubelet sets for a manifest without metadata.uid"
	}
	c.report(p, "", code, text+placedLikeOthers)
	return false
}

func (c *classifier) staticMay(p *Pod, partition *Partition) bool {
	if c.in.StaticPods.All || slices.Contains(c.in.StaticPods.Namespaces, p.Namespace) {
		return true
	}
	why := "staticPods is set to ignore"
	if len(c.in.StaticPods.Namespaces) > 0 {
		why = "namespace " + clip(p.Namespace) + " is not among those in staticPods"
	}
	c.report(p, "", CodeStaticNotAllowed, "static pod asks for workload type "+partition.Type+", and "+why+placedLikeOthers)
	return false
}
