package size

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// demand holds the pods by shape. It does not depend on the kinds of nodes, except by the switches
// of the webhook.
type demand struct {
	in         *Input
	names      workload.Names
	settings   admission.Settings
	namespaces map[string]map[string]string
	table      table
	shapes     []*shape // of pods
	daemons    []*shape // of DaemonSets: each node has one pod
	pods       int      // without pods of DaemonSets
	notes      []string
}

// shape is a set of pods that differ only in their names.
type shape struct {
	pods []*simulate.Pod // as the webhook would have them
	// profile is equal for shapes that the planner cannot distinguish.
	profile  string
	requests amounts
	// refused is the reason of the webhook against the pods, or empty.
	refused string
	// warnings are the warnings of the webhook about each pod.
	warnings []admission.Warning
	// managed is the workload type of the pods, or empty. cpu is their CPU request in thousandths,
	// in the pool of the type or else in the shared and the guaranteed pool.
	managed string
	cpu     int64
	// wants is the number of whole CPUs that the pods request, if they are Guaranteed.
	wants int
}

// pod returns the first pod, which stands for all.
func (s *shape) pod() *corev1.Pod { return s.pods[0].Spec }

func newDemand(in *Input) (*demand, error) {
	d := &demand{in: in, names: in.Kinds[0].Config.Names(), table: newTable(), namespaces: make(map[string]map[string]string), notes: slices.Clone(in.Objects.Notes)}
	maps.Copy(d.namespaces, in.Objects.Namespaces)
	for i := range in.Kinds {
		if in.Kinds[i].Config.Names() != d.names {
			return nil, errors.New("the configurations have different values of annotationDomain or poolDomain; a cluster has one webhook, so write the same values")
		}
	}
	if err := d.permit(); err != nil {
		return nil, err
	}
	byKey := make(map[string]*shape)
	for i := range in.Objects.Pods {
		p := &in.Objects.Pods[i]
		key, err := d.key(p)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", p.Name(), err)
		}
		of := &d.daemons
		if p.PerNode == "" {
			of = &d.shapes
			d.pods++
		}
		if s := byKey[key]; s != nil {
			s.add(p)
			continue
		}
		byKey[key] = d.newShape(p)
		*of = append(*of, byKey[key])
	}
	d.noteRules()
	d.noteWarnings()
	return d, nil
}

// noteWarnings notes how many pods get a warning of the webhook, for each reason.
func (d *demand) noteWarnings() {
	counts, first := make(map[admission.Reason]int), make(map[admission.Reason]string)
	for _, s := range slices.Concat(d.shapes, d.daemons) {
		seen := make(map[admission.Reason]bool)
		for _, w := range s.warnings {
			if seen[w.Reason] {
				continue
			}
			seen[w.Reason] = true
			if counts[w.Reason] == 0 {
				first[w.Reason] = fmt.Sprintf("%s: %s", s.pods[0].Name(), w)
			}
			counts[w.Reason] += len(s.pods)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		d.notes = append(d.notes, fmt.Sprintf("pods with the warning %s of the webhook: %d; %s", reason, counts[reason], first[reason]))
	}
}

// permit sets the switches of the webhook. A switch is on if all kinds of nodes have the resource,
// as with auto. A namespace that is not in the files allows all workload types.
func (d *demand) permit() error {
	d.settings = admission.Settings{Names: d.names, Types: map[string]bool{}, Defaults: d.in.Defaults, Claims: &d.in.Objects.Claims}
	counts := make(map[string]int)
	types := make(map[string]bool)
	for _, k := range d.in.Kinds {
		n, err := simulate.NewNode(k.Config, k.Topology, nil)
		if err != nil {
			return fmt.Errorf("machine %s: %w", k.Name, err)
		}
		for _, r := range n.Resources() {
			counts[r.Resource]++
		}
		for _, part := range k.Config.Pools.Partitions {
			types[part.Type] = true
		}
	}
	everywhere := func(resource string) bool { return !d.in.NoWebhook && counts[resource] == len(d.in.Kinds) }
	d.settings.SharedCPUs, d.settings.GuaranteedCPUs = everywhere(d.names.SharedResource()), everywhere(d.names.GuaranteedResource())
	for typ := range types {
		d.settings.Types[typ] = everywhere(d.names.CoresResource(typ))
	}
	g := &d.in.Kinds[0].Config.Pools.Guaranteed
	d.settings.PodLevel, d.settings.PodLevelOverride = admission.PodLevel(g.PodLevel), slices.Contains(g.Overrides, "pod-level")

	all := map[string]string{d.names.AllowedKey(): strings.Join(slices.Sorted(maps.Keys(types)), ",")}
	unknown := 0
	for i := range d.in.Objects.Pods {
		in := d.in.Objects.Pods[i].Spec.Namespace
		if _, known := d.namespaces[in]; known {
			continue
		}
		d.namespaces[in] = all
		unknown++
	}
	if unknown > 0 {
		d.notes = append(d.notes, fmt.Sprintf("namespaces that are not in the files are taken to allow all workload types: %d", unknown))
	}
	return nil
}

// key returns a text that is equal for pods of one shape: it has the parts that decide about the place.
func (d *demand) key(p *simulate.Pod) (string, error) {
	spec := &p.Spec.Spec
	outline := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.PerNode, Namespace: p.Spec.Namespace, Annotations: maps.Clone(p.Spec.Annotations)}, Spec: corev1.PodSpec{
		InitContainers: parts(spec.InitContainers), Containers: parts(spec.Containers), Resources: spec.Resources, Overhead: spec.Overhead,
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, OS: spec.OS, SchedulerName: spec.SchedulerName,
	}}
	maps.DeleteFunc(outline.Annotations, func(key, _ string) bool { return !d.names.Reads(key) && !pools.ReadsAnnotation(d.names, key) })
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		outline.Spec.Affinity = &corev1.Affinity{NodeAffinity: spec.Affinity.NodeAffinity}
	}
	text, err := json.Marshal(outline)
	return string(text), err
}

func parts(containers []corev1.Container) (all []corev1.Container) {
	for _, c := range containers {
		all = append(all, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return all
}

// newShape returns the shape of a pod, with this pod. The webhook and the API server complete the
// pod.
func (d *demand) newShape(p *simulate.Pod) *shape {
	s := &shape{}
	pod := p.Spec
	if !d.in.NoWebhook {
		mutated, warnings, err := d.settings.Mutate(pod, admission.Origin{Namespace: d.namespaces[pod.Namespace]})
		if err != nil {
			s.refused = "the webhook refuses it: " + err.Error()
		} else {
			pod, s.warnings = mutated, warnings
		}
	}
	pod = completed(pod, d.in.Defaults)
	s.requests = d.table.amounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) // as the scheduler counts them
	s.requests[podsAt] = 1
	asked := admission.AskedBy(pod, d.in.Defaults)
	read := maps.Clone(pod.Annotations)
	maps.DeleteFunc(read, func(key, _ string) bool { return !pools.ReadsAnnotation(d.names, key) })
	s.profile = fmt.Sprintf("%s %v %q", asked.Class, asked, read)
	s.cpu = asked.Pod.Request
	if asked.Class == corev1.PodQOSGuaranteed {
		s.wants = int(s.cpu / 1000)
	}
	if typ, asks, err := d.names.TargetType(pod.Annotations); err == nil && asks {
		s.managed = typ
		if r := d.table.index[d.names.CoresResource(typ)]; r > 0 && s.requests.of(r) > 0 {
			s.cpu = s.requests.of(r)
		}
	}
	s.pods = []*simulate.Pod{{UID: p.UID, Spec: pod}}
	return s
}

// add adds another pod.
func (s *shape) add(p *simulate.Pod) {
	pod := *s.pods[0].Spec
	pod.Name = p.Spec.Name
	s.pods = append(s.pods, &simulate.Pod{UID: p.UID, Spec: &pod})
}

// completed returns the pod with the values that the API server sets: a limit without a request is
// the request, too, and spec.resources has its defaults.
func completed(pod *corev1.Pod, defaults admission.Defaults) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			if len(r.Limits) > 0 {
				requests := maps.Clone(r.Limits)
				maps.Copy(requests, r.Requests)
				r.Requests = requests
			}
		}
	}
	if own, decides := admission.OwnResources(pod, defaults); decides {
		pod.Spec.Resources = &own
	}
	return pod
}

// noteRules notes how many pods use rules of the scheduler that the packing leaves out.
func (d *demand) noteRules() {
	rules := []struct {
		name string
		uses func(*corev1.PodSpec) bool
	}{
		{"affinity or anti-affinity between pods", func(s *corev1.PodSpec) bool {
			return s.Affinity != nil && (s.Affinity.PodAffinity != nil || s.Affinity.PodAntiAffinity != nil)
		}},
		{"host ports", func(s *corev1.PodSpec) bool {
			hasPort := func(p corev1.ContainerPort) bool { return p.HostPort != 0 }
			return slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return slices.ContainsFunc(c.Ports, hasPort) })
		}},
		{"resource claims", func(s *corev1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
		{"topology spread constraints", func(s *corev1.PodSpec) bool { return len(s.TopologySpreadConstraints) > 0 }},
		{"volumes with claims", func(s *corev1.PodSpec) bool {
			return slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
		}},
	}
	for _, rule := range rules {
		count := 0
		for i := range d.in.Objects.Pods {
			if rule.uses(&d.in.Objects.Pods[i].Spec.Spec) {
				count++
			}
		}
		if count > 0 {
			d.notes = append(d.notes, fmt.Sprintf("pods with %s, which the packing does not apply: %d", rule.name, count))
		}
	}
}

// amounts are amounts of resources by their number in a table. CPU and resources of pools are in
// thousandths of a CPU.
type amounts []int64

// of returns an amount; 0 for a resource that the table got later.
func (a amounts) of(r int) int64 {
	if r < len(a) {
		return a[r]
	}
	return 0
}

// table numbers resources. The first ones are pods and cpu.
type table struct {
	names []corev1.ResourceName
	index map[string]int
}

const (
	podsAt = iota
	cpuAt
)

func newTable() table {
	t := table{index: make(map[string]int)}
	t.number(corev1.ResourcePods)
	t.number(corev1.ResourceCPU)
	return t
}

func (t *table) number(name corev1.ResourceName) int {
	i, known := t.index[string(name)]
	if !known {
		i = len(t.names)
		t.names, t.index[string(name)] = append(t.names, name), i
	}
	return i
}

// amounts returns the amounts of a list.
func (t *table) amounts(list corev1.ResourceList) amounts {
	names := slices.Sorted(maps.Keys(list))
	for _, name := range names {
		t.number(name)
	}
	a := make(amounts, len(t.names))
	for _, name := range names {
		q := list[name]
		if name == corev1.ResourceCPU {
			a[t.number(name)] = q.MilliValue()
			continue
		}
		a[t.number(name)] = q.Value()
	}
	return a
}
