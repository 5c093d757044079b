package pools

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// verdict is the classification of a container, before its CPUs are chosen.
type verdict struct {
	pool Pool
	want int // number of CPUs that a container of the guaranteed pool asks for
	// shares and limit, in thousandths of a CPU, are the values of the annotation.
	shares  uint64
	limit   int64
	typ     string // partition of a container outside the partition of its pod; "" for all others
	reason  Reason
	atLeast bool // want is only a lower bound: it keeps its previous CPUs.
	waiting bool // it gets no CPUs yet, unless it has some.
	mixed   bool // shared CPUs are added to its exclusive CPUs.
	podPool bool // it shares the CPUs of its pod with other containers of the pod
}

// classifier decides the pool of each container and collects rejected inputs.
type classifier struct {
	in       *Input
	problems []Problem
	notes    *notebook // nil without an explanation
	// last is the reason of the containers of pods of the type lastType, which most
	// pods have in common.
	lastType    string
	last        Reason
	haveSharers bool // an assignment records sharers: see podLevel
}

func (c *classifier) report(p *Pod, container string, code Code, text string) {
	c.problems = append(c.problems, p.problem(container, Reason{code, text}))
}

// problem returns a problem of a container, or of the whole pod if the name is empty.
func (p *Pod) problem(container string, r Reason) Problem {
	return Problem{PodUID: p.UID, Pod: p.Namespace + "/" + p.Name, Container: container, Reason: r}
}

// placedLikeOthers ends the reports of rejected annotations.
const placedLikeOthers = "; the pod is placed like any other"

// partition returns the partition that a pod belongs to, if it asks for one and
// may have it.
func (c *classifier) partition(p *Pod) (*Partition, bool) {
	typ, found, err := c.in.Names.Target(p.Annotations)
	c.checkOldForm(p, typ)
	if !found {
		if names := c.in.Names.AnnotatedContainers(p.Annotations, ""); len(names) > 0 {
			c.report(p, "", CodeResourcesIgnored, "annotations give resources to "+enumerate(names)+
				" but no workload type; they are ignored; add "+c.in.Names.TargetKey("<type>"))
		}
		return nil, false
	}
	if err != nil {
		c.report(p, "", CodeTargetInvalid, err.Error()+placedLikeOthers)
		return nil, false
	}
	partition, ok := c.in.Pools.partition(typ)
	switch {
	case !ok:
		c.report(p, "", CodeTypeUnknown, "no partition of this node is of workload type "+clip(typ)+placedLikeOthers)
	case !c.may(p, partition): // may has reported the cause
	case p.QoS == QoSGuaranteed:
		c.report(p, "", CodeGuaranteedPod, "workload type "+typ+" is not for Guaranteed pods, whose CPU cannot be taken from the scheduler"+placedLikeOthers)
	default:
		return partition, true
	}
	return nil, false
}

// checkOldForm reports annotations in the old form that do not count, as one problem: a pod
// can have thousands of them.
func (c *classifier) checkOldForm(p *Pod, typ string) {
	bad := c.in.Names.CheckOldForm(p.Annotations, typ)
	switch more := len(bad) - 1; more {
	case -1:
	case 0:
		c.report(p, "", CodeResourcesInvalid, bad[0].Error()+"; the daemon ignores it")
	default:
		c.report(p, "", CodeResourcesInvalid, bad[0].Error()+"; the daemon ignores it and "+strconv.Itoa(more)+" more")
	}
}

// managed classifies the containers of a pod whose request for a partition stands.
func (c *classifier) managed(p *Pod, typ string, verdicts []verdict) {
	if c.lastType != typ {
		c.lastType, c.last = typ, Reason{CodeManagement, "pod of workload type " + typ}
	}
	reason := c.last
	if p.Static() {
		reason.Text = "static " + reason.Text
	}
	for i := range p.Containers {
		ctr := &p.Containers[i]
		verdicts[i] = verdict{pool: Management, reason: reason}
		if ctr.Kind == Infra {
			if c.in.Pools.Infra != "" {
				verdicts[i] = c.pause()
			}
			continue
		}
		r, _, err := c.in.Names.ContainerResources(p.Annotations, typ, ctr.Name)
		if err != nil {
			c.report(p, ctr.Name, CodeResourcesInvalid, err.Error()+"; the container keeps its shares")
		}
		verdicts[i].shares, verdicts[i].limit = r.Shares, r.LimitMilli
	}
	c.checkNames(p, typ)
}

// checkNames reports resources annotations for containers that p does not have.
func (c *classifier) checkNames(p *Pod, typ string) {
	if !p.Settled {
		return
	}
	names := c.in.Names.AnnotatedContainers(p.Annotations, typ)
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(p.Containers, func(ctr Container) bool { return ctr.Kind == App && ctr.Name == name })
	})
	if len(names) > 0 {
		c.report(p, "", CodeNoSuchContainer, "annotations give resources to "+enumerate(names)+", which the pod does not have; they are ignored")
	}
}

// ordinary classifies a container of any other pod.
func (c *classifier) ordinary(p *Pod, ctr *Container) verdict {
	switch {
	case ctr.Kind == Infra:
		return c.pause()
	case p.QoS == QoSBestEffort:
		return shared(CodeBestEffort, "BestEffort pod")
	case p.QoS == QoSBurstable:
		return shared(CodeBurstable, "Burstable pod")
	case p.QoS != QoSGuaranteed || p.UID == "":
		return shared(CodeNoQoS, "no QoS class: the pod is not in the kubelet's tree")
	}
	if ctr.Name == "" {
		return shared(CodeUnknown, "the container has no name")
	}
	v := guaranteed(ctr.Resources)
	if v.pool == Guaranteed && !c.in.Pools.exclusive() {
		if v.want == 0 {
			return shared(CodeUnknown, v.reason.Text)
		}
		return shared(CodeNoGuaranteedPool, v.reason.Text+", but the guaranteed pool is empty")
	}
	v.waiting, v.mixed = ctr.Waiting, c.mixes(p, ctr.Name)
	return v
}

// checkOffered reports a pod that requests exclusive CPUs from a node without a guaranteed pool,
// once for all of its containers.
func (c *classifier) checkOffered(p *Pod, verdicts []verdict) {
	for i := range verdicts {
		if verdicts[i].reason.Code == CodeNoGuaranteedPool && p.Containers[i].State != Exited {
			c.report(p, "", CodeNoGuaranteedPool, "container "+clip(p.Containers[i].Name)+" requests "+verdicts[i].reason.Text+
				"; the pod runs in the shared pool; write guaranteed: {from: shared} or guaranteed.cpus into the configuration of the node")
			return
		}
	}
}

// pause classifies pause containers, except in pods of a workload type.
func (c *classifier) pause() verdict {
	if typ := c.in.Pools.Infra; typ != "" {
		return verdict{pool: Management, typ: typ, reason: Reason{CodePause, "pause container (infraContainers)"}}
	}
	return shared(CodePause, "pause container")
}

func shared(code Code, text string) verdict {
	return verdict{pool: Shared, reason: Reason{code, text}}
}

// The arithmetic of the kubelet (pkg/kubelet/cm, MilliCPUToShares): the shares of
// a whole number of CPUs are a multiple of 1024, and the shares without a request
// are 2. No fraction of a CPU gives a multiple of 1024, so that the test below is
// exact, up to the cap of 256 CPUs.
const (
	sharesPerCPU = 1024
	noRequest    = 2
	sharesCap    = 262144
)

// mostCPUs bounds numbers that come from quotas; no machine has as many.
const mostCPUs = 1 << 20

// guaranteed classifies an app container of a Guaranteed pod. The quota counts
// only where the shares are capped: it may be off on the whole node (kubelet
// cpuCFSQuota), and is lifted from containers with exclusive CPUs.
func guaranteed(r Resources) verdict {
	exclusive := func(n int) verdict {
		return verdict{pool: Guaranteed, want: n, reason: Reason{CodeExclusive, countBefore(n, "whole CPU", " in a Guaranteed pod")}}
	}
	switch {
	case r.Shares == 0:
		// Its previous CPUs may be known, and it keeps them.
		v := exclusive(0)
		v.atLeast, v.reason = true, Reason{CodeUnknown, "the container's CPU request is not known"}
		return v
	case r.Shares == noRequest:
		return shared(CodeNoRequest, "no CPU request of its own in a Guaranteed pod")
	case r.Shares < sharesCap && r.Shares%sharesPerCPU == 0:
		return exclusive(int(r.Shares / sharesPerCPU))
	case r.Shares < sharesCap:
		return fractional(int64(r.Shares*1000+sharesPerCPU-1) / sharesPerCPU)
	}
	const capped = sharesCap / sharesPerCPU
	if r.Quota <= 0 || r.Period <= 0 || r.Quota/r.Period < capped {
		v := exclusive(capped)
		v.atLeast = true
		return v
	}
	n := min(r.Quota/r.Period, mostCPUs)
	if r.Quota%r.Period != 0 {
		return fractional(n*1000 + r.Quota%r.Period*1000/r.Period)
	}
	return exclusive(int(n))
}

// count formats a number of things, such as 1 CPU or 2 CPUs.
func count(n int, thing string) string { return countBefore(n, thing, "") }

// countBefore is count with the rest of the text, in one allocation: each plan of an owner has such
// a text.
func countBefore(n int, thing, rest string) string {
	if n == 1 {
		return "1 " + thing + rest
	}
	return strconv.Itoa(n) + " " + thing + "s" + rest
}

func fractional(milli int64) verdict {
	return shared(CodeFractional, strconv.FormatInt(milli, 10)+"m CPU in a Guaranteed pod is not a whole number of CPUs")
}

// WholeCPUs returns the number of whole CPUs in r, rounded down. It is unknown without
// shares, and if they are capped (256 CPUs) without a quota.
func (r Resources) WholeCPUs() (n int, known bool) {
	switch {
	case r.Shares == 0:
		return 0, false
	case r.Shares < sharesCap:
		return int(r.Shares / sharesPerCPU), true
	case r.Quota > 0 && r.Period > 0:
		return int(min(r.Quota/r.Period, mostCPUs)), true
	}
	return 0, false
}

// ExclusiveCPUs returns the number of exclusive CPUs that a container of a Guaranteed pod
// requests with r. It returns 0 for a fraction of a CPU and where the number is unknown.
func (r Resources) ExclusiveCPUs() int {
	if n, known := r.WholeCPUs(); known && r.Shares%sharesPerCPU == 0 {
		return n
	}
	return 0
}

// enumerate lists the first few names.
func enumerate(names []string) string {
	const most = 3
	var b strings.Builder
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(name))
	}
	if more := len(names) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// clip makes a name from outside fit for a line of text: names that the API
// server accepts stay as they are.
func clip(name string) string {
	const limit = 63
	if len(name) > limit {
		return strconv.Quote(name[:limit]) + "..."
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) || name == "" {
		return strconv.Quote(name)
	}
	return name
}

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
	if p.demandsStatic() {
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

// StaticPods configures which static pods may request a workload type. The zero value
// allows none.
type StaticPods struct {
	// All allows static pods of every namespace.
	All        bool
	Namespaces []string // namespaces whose static pods may; empty with All
}

// The kubelet's annotations on the sandbox of each pod
// (kubernetes pkg/kubelet/types: ConfigSourceAnnotationKey, ConfigHashAnnotationKey).
const (
	sourceKey  = "kubernetes.io/config.source"
	hashKey    = "kubernetes.io/config.hash"
	sourceFile = "file"
	sourceHTTP = "http"
)

// Static reports whether the kubelet has read the pod from a manifest of the node's.
//
// A pod created through the API can have any annotation. The kubelet replaces the
// source with the true one (pkg/kubelet/config, podStorage.merge), but another CRI
// client need not. The UID cannot be chosen: an API server generates a random UUID for
// each pod, and the kubelet the MD5 of each manifest, as 32 hex digits.
func (p *Pod) Static() bool {
	const digits = 32 // UUIDs have dashes
	return p.demandsStatic() && p.Annotations[hashKey] == p.UID && len(p.UID) == digits && strings.Trim(p.UID, "0123456789abcdef") == ""
}

func (p *Pod) demandsStatic() bool {
	source := p.Annotations[sourceKey]
	return source == sourceFile || source == sourceHTTP
}
