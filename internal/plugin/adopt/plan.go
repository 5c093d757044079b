// Package adopt plans the restarts of pods that are older than the webhook: they use
// CPUs that no pool counts.
package adopt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// Plan holds the restarts and other steps, in their order.
type Plan struct {
	// Steps are in the order in which to do them.
	Steps []Step `json:"steps"`
	// Nodes are sorted by name.
	Nodes []Node `json:"nodes"`
}

// Step is one owner of pods.
type Step struct {
	Stage     Stage  `json:"stage"`
	Namespace string `json:"namespace"`
	// Kind and Name are the owner's, or the pod's own if no owner would create it again.
	Kind string `json:"kind"`
	Name string `json:"name"`
	Pods int    `json:"pods"`
	// MilliCPU is what all these pods request, in thousandths of a CPU.
	MilliCPU int64 `json:"milliCPU"`
	// Becomes are the resources of pools that each pod is going to have, as name=amount.
	Becomes []string `json:"becomes"`
	// Warnings list requests that are not granted, and unknown facts.
	Warnings []string `json:"warnings,omitempty"`
	// How is a command, or an instruction if no command does it.
	How string `json:"how"`
}

// Node is a node with pods that no pool counts.
type Node struct {
	Name     string `json:"name"`
	Pods     int    `json:"pods"`
	MilliCPU int64  `json:"milliCPU"`
}

// Make plans for a cluster. The order of its pods does not matter.
func Make(settings admission.Settings, c *Cluster) Plan {
	settings.Claims = &c.Claims
	p := planner{settings: settings, cluster: c, steps: map[object]*Step{}, nodes: map[string]Node{}}
	for _, pod := range c.Pods {
		p.add(pod)
	}
	plan := Plan{Steps: []Step{}, Nodes: []Node{}}
	for _, step := range p.steps {
		for _, texts := range []*[]string{&step.Becomes, &step.Warnings} {
			slices.Sort(*texts)
			*texts = slices.Compact(*texts)
		}
		step.How = how(step)
		plan.Steps = append(plan.Steps, *step)
	}
	typed := func(s Step) int { // those of a type first: they give cpu back to the rest
		if slices.ContainsFunc(s.Becomes, func(text string) bool { return p.isCores(text) }) {
			return 0
		}
		return 1
	}
	slices.SortFunc(plan.Steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), typed(a)-typed(b),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		plan.Nodes = append(plan.Nodes, p.nodes[name])
	}
	return plan
}

type planner struct {
	settings admission.Settings
	cluster  *Cluster
	steps    map[object]*Step
	nodes    map[string]Node
}

func (p *planner) isCores(text string) bool {
	name, _, _ := strings.Cut(text, "=")
	_, ok := p.settings.Names.CoresType(name)
	return ok
}

func (p *planner) add(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return // it uses no CPUs, or not for long
	}
	becomes, warnings, refused := p.becomes(pod)
	if becomes == nil && !refused {
		return
	}
	owner := p.cluster.owner(pod)
	step := p.steps[owner]
	if step == nil {
		step = &Step{Stage: stageOf(owner.kind), Namespace: owner.namespace, Kind: owner.kind, Name: owner.name, Becomes: []string{}}
		p.steps[owner] = step
	}
	if refused {
		step.Stage = Refused
	}
	milli := running(pod, corev1.ResourceCPU)
	step.Pods++
	step.MilliCPU += milli
	step.Becomes = append(step.Becomes, becomes...)
	step.Warnings = append(step.Warnings, warnings...)
	if name := pod.Spec.NodeName; name != "" {
		p.nodes[name] = Node{name, p.nodes[name].Pods + 1, p.nodes[name].MilliCPU + milli}
	}
}

// becomes returns the resources of pools that a new pod would have, and notes for its owner. A
// resource can occur several times. The result is nil if the pod would not change. refused reports
// whether the webhook would refuse it.
func (p *planner) becomes(pod *corev1.Pod) (resources, warnings []string, refused bool) {
	namespace, known := p.cluster.Namespaces[pod.Namespace]
	from := admission.Origin{Namespace: namespace, Manifest: static(pod) || !known}
	after, warned, err := p.settings.Mutate(pod, from)
	if err != nil {
		return nil, []string{"would be refused: " + err.Error()}, true
	}
	if sameResources(pod, after) {
		return nil, nil, false
	}
	resources = []string{}
	for _, c := range slices.Concat(after.Spec.InitContainers, after.Spec.Containers) {
		for name := range c.Resources.Requests {
			if p.settings.Names.IsPool(string(name)) {
				resources = append(resources, fmt.Sprintf("%s=%d", name, running(after, name)/1000))
			}
		}
	}
	for _, w := range warned {
		warnings = append(warnings, w.String())
	}
	if typ, asks, _ := p.settings.Names.TargetType(pod.Annotations); asks && !known && !static(pod) {
		warnings = append(warnings, fmt.Sprintf("whether namespace %q allows workload type %q is not known; add namespaces to the list", pod.Namespace, typ))
	}
	return resources, warnings, false
}

func sameResources(a, b *corev1.Pod) bool {
	same := func(x, y []corev1.Container) bool {
		return slices.EqualFunc(x, y, func(c, d corev1.Container) bool {
			return equality.Semantic.DeepEqual(c.Resources.Requests, d.Resources.Requests)
		})
	}
	return same(a.Spec.InitContainers, b.Spec.InitContainers) && same(a.Spec.Containers, b.Spec.Containers)
}

// running is what the containers of a pod request of a resource that run as long
// as it does, in thousandths, and at most 2^53.
func running(pod *corev1.Pod, name corev1.ResourceName) (milli int64) {
	const most = int64(1) << 53
	count := func(c *corev1.Container) {
		q, ok := c.Resources.Requests[name]
		if !ok {
			q = c.Resources.Limits[name]
		}
		switch {
		case q.Sign() <= 0:
		case q.CmpInt64(most/1000) >= 0:
			milli = most
		default:
			milli = min(milli+q.MilliValue(), most)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			count(c)
		}
	}
	for i := range pod.Spec.Containers {
		count(&pod.Spec.Containers[i])
	}
	return milli
}

// static reports whether a pod is a mirror pod of a static pod (kubelet types).
func static(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// owner returns the object that would create the pod again.
func (c *Cluster) owner(pod *corev1.Pod) object {
	if static(pod) {
		return object{staticKind, pod.Namespace, pod.Name}
	}
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return object{"Pod", pod.Namespace, pod.Name}
	}
	owner := object{ref.Kind, pod.Namespace, ref.Name}
	if above, ok := c.owners[owner]; ok {
		return above
	}
	// A Deployment's ReplicaSets are called after it and a hash of the template.
	hash := pod.Labels["pod-template-hash"]
	if deployment, ok := strings.CutSuffix(owner.name, "-"+hash); ok && owner.kind == "ReplicaSet" && hash != "" {
		return object{"Deployment", owner.namespace, deployment}
	}
	return owner
}

// Stage is a part of the order.
type Stage int

// The stages, in their order.
const (
	// Refused are pods that would not come back.
	Refused Stage = iota
	Replicated
	Stateful
	EveryNode
	Ending
	Alone
	Static
)

const staticKind = "static pod"

// words returns the name of a stage in JSON, and what its pods are and why they have their place.
func (s Stage) words() (name, why string) {
	all := [...]struct{ name, why string }{
		Refused:    {"refused", "Would be refused: put these right before anything restarts them"},
		Replicated: {"replicated", "Deployments and the like: other replicas serve meanwhile, and a mistake shows in one pod first"},
		Stateful:   {"stateful", "StatefulSets: one pod after the other, each has to come back before the next"},
		EveryNode:  {"everyNode", "DaemonSets: each node is without its pod for a moment, so they wait until the others have shown that pods come back"},
		Ending:     {"ending", "Jobs: they end by themselves, and what they make next is counted"},
		Alone:      {"alone", "Pods without an owner: no controller creates them again"},
		Static:     {"static", "Static pods, last: no webhook sees them, and a control plane that does not come back cannot be mended through its API"},
	}
	return all[s].name, all[s].why
}

// Why describes the pods of a stage, and states the reason for their place.
func (s Stage) Why() string {
	_, why := s.words()
	return why
}

// MarshalText returns the name of a stage.
func (s Stage) MarshalText() ([]byte, error) {
	name, _ := s.words()
	return []byte(name), nil
}

func stageOf(kind string) Stage {
	known := map[string]Stage{"StatefulSet": Stateful, "DaemonSet": EveryNode, "Job": Ending, "CronJob": Ending, "Pod": Alone, staticKind: Static}
	return cmp.Or(known[kind], Replicated)
}

func how(s *Step) string {
	if s.Stage == Refused {
		return "correct it as the warning says"
	}
	switch s.Kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		return fmt.Sprintf("kubectl -n %s rollout restart %s/%s", s.Namespace, strings.ToLower(s.Kind), s.Name)
	case "Job", "CronJob":
		return "wait until it has ended"
	case "Pod":
		return fmt.Sprintf("kubectl -n %s get pod %s -o yaml, delete it, and create it again", s.Namespace, s.Name)
	case staticKind:
		return "on its node: kubectl cpupool mutate --in-place -f MANIFEST"
	default:
		return fmt.Sprintf("delete its pods one at a time (%s %s)", s.Kind, s.Name)
	}
}
