package simulate

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Presumed is a node that has room for each pod. It stands for a node about which only this is
// known.
type Presumed struct {
	Names workload.Names
	// Types are the workload types with a pool.
	Types []string
	// Namespaces are the annotations of namespaces. A namespace that is missing allows all types.
	Namespaces map[string]map[string]string
	PodLevel   admission.PodLevel
	Defaults   admission.Defaults
	// Claims are the names of the containers on CPUs of ResourceClaims, by the name of the claim.
	Claims map[string][]string
}

// Answer is the verdict for a container. The CPUs of the container are not known.
type Answer struct {
	inspect.Container
	Problems []inspect.Problem
	verdict.Verdict
}

// presumedCPUs is the number of CPUs of the guaranteed pool of a presumed node.
const presumedCPUs = 512

// presumedUID is the UID of a pod on a presumed node.
const presumedUID = "presumed"

// Answers returns the verdict for each container that runs as long as the pod.
func (p Presumed) Answers(pod *corev1.Pod) ([]Answer, error) {
	t, err := Describe(fmt.Sprintf("1s%dc1t", presumedCPUs+2+len(p.Claims)))
	if err != nil {
		return nil, err
	}
	n := &Node{Defaults: p.Defaults, config: &config.Config{}, whole: t, topology: t}
	n.input = pools.Input{Machine: allocate.New(t), Names: p.Names}
	n.input.Pools.Shared, n.input.Pools.PodLevel, n.input.StaticPods.All = cpuset.Of(1), pools.PodLevel(p.PodLevel), true
	n.input.Pools.Guaranteed = cpuset.Range(2, presumedCPUs+1)
	for _, name := range slices.Sorted(maps.Keys(p.Claims)) { // one CPU stands for the CPUs of a claim
		n.input.Pools.Claims.CPUs = n.input.Pools.Claims.CPUs.Union(cpuset.Of(presumedCPUs + 2 + len(n.input.Claims)))
		n.input.Claims = append(n.input.Claims, pools.Claim{UID: name, Namespace: pod.Namespace, Name: name, PodUID: presumedUID,
			Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}, Containers: slices.Sorted(slices.Values(p.Claims[name]))})
	}
	n.input.Namespaces = pools.NamespaceRights{Asked: true, Current: true, Permissions: workload.Permissions{}}
	annotations, known := p.Namespaces[pod.Namespace]
	for _, typ := range slices.Sorted(slices.Values(p.Types)) {
		part := pools.Partition{Type: typ, CPUs: cpuset.Of(0)}
		if allowed, _ := p.Names.Allowed(annotations, typ); allowed || !known {
			part.Namespaces = []string{pod.Namespace}
		}
		n.input.Pools.Partitions = append(n.input.Pools.Partitions, part)
	}
	spec := pod.DeepCopy()
	if err := n.Add(&Pod{UID: presumedUID, Spec: spec}); err != nil {
		return nil, err
	}
	facts := Facts(spec, p.Defaults)
	facts.Names, facts.Types = p.Names, p.Types
	problems := []inspect.Problem{}
	for _, x := range n.plan.Problems {
		problems = append(problems, inspect.ProblemOf(x))
	}
	var all []Answer
	for _, c := range inspect.Containers(&n.plan, nil) {
		of := slices.DeleteFunc(slices.Clone(problems), func(x inspect.Problem) bool { return x.Container != "" && x.Container != c.Name })
		c.ID, c.PodUID, c.CPUs = "", "", cpuset.Set{}
		all = append(all, Answer{c, of, verdict.Of(&c, of, facts)})
	}
	return all, nil
}
