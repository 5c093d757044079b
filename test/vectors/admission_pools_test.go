package vectors_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// checkPools compares the resources of the shared and the guaranteed pool.
func (c *admitCase) checkPools() error {
	s := settings(&c.Pod, true, true)
	from := admission.Origin{Namespace: c.NamespaceAnnotations, Node: true}
	if from.Namespace == nil {
		for typ := range s.Types {
			from.Namespace = map[string]string{s.Names.AllowedKey(): typ}
		}
	}
	got, _, err := s.Mutate(&c.Pod, from)
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	added := map[string]map[string]string{}
	for name, r := range resourcesOf(got) {
		for _, resource := range []string{s.Names.SharedResource(), s.Names.GuaranteedResource()} {
			request, limit := r.Requests[resource], r.Limits[resource]
			if request != limit {
				return fmt.Errorf("container %s requests %q of %s and is limited to %q", name, request, resource, limit)
			}
			if request != "" {
				added[name] = map[string]string{resource: request}
			}
		}
	}
	want := map[string]map[string]string{}
	for name, list := range c.Expect.Added {
		want[name] = normalList(list)
	}
	if err := compare("pool resources", added, want); err != nil {
		return err
	}
	for name, gone := range c.Expect.Removed {
		for _, resource := range gone {
			if _, ok := resourcesOf(got)[name].Requests[resource]; ok {
				return fmt.Errorf("container %s still requests %s", name, resource)
			}
		}
	}
	return nil
}

// checkEffectiveRequest compares the scheduler's count for a pod: the containers that
// run together, or an init container with the sidecars that run before it.
func checkEffectiveRequest(raw json.RawMessage) error {
	c, err := decode[struct {
		Pod    podJSON
		Expect map[string]int64
	}](raw)
	if err != nil {
		return err
	}
	s := admission.Settings{SharedCPUs: true, GuaranteedCPUs: true}
	pod, _, err := s.Mutate(&c.Pod, admission.Origin{})
	if err != nil {
		return err
	}
	got := map[string]int64{}
	for _, name := range []string{s.Names.SharedResource(), s.Names.GuaranteedResource()} {
		if n := counted(pod, corev1.ResourceName(name)); n > 0 {
			got[name] = n
		}
	}
	return compare("counted by the scheduler", got, c.Expect)
}

func counted(pod *podJSON, name corev1.ResourceName) int64 {
	var sidecars, peak int64
	for _, c := range pod.Spec.InitContainers {
		q := c.Resources.Requests[name]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars += q.Value()
		} else {
			peak = max(peak, sidecars+q.Value())
		}
	}
	running := sidecars
	for _, c := range pod.Spec.Containers {
		q := c.Resources.Requests[name]
		running += q.Value()
	}
	return max(peak, running)
}

// checkClass derives the QoS class from the changes of the pod. A Guaranteed pod gets a
// warning. Of the others, only the containers of a BestEffort pod get an annotation
// without a CPU request.
func checkClass(raw json.RawMessage) error {
	c, err := decode[struct {
		Pod    podJSON
		Expect json.RawMessage
	}](raw)
	if err != nil {
		return err
	}
	var want string
	if json.Unmarshal(c.Expect, &want) != nil {
		differ, err := decode[struct{ Kubernetes string }](c.Expect)
		if err != nil {
			return err
		}
		want = differ.Kubernetes
	}
	got, err := classByChanges(&c.Pod)
	if err != nil {
		return err
	}
	if got != want && undefaulted(&c.Pod) {
		return fmt.Errorf(asKubernetes+": %w", errDeviation)
	}
	return compare("QoS class", got, want)
}

// classByChanges requests a workload type and examines the changed pod.
func classByChanges(pod *podJSON) (string, error) {
	s := admission.Settings{Types: map[string]bool{"t": true}}
	from := admission.Origin{Namespace: map[string]string{s.Names.AllowedKey(): "t"}}
	asks := pod.DeepCopy()
	asks.Annotations = map[string]string{s.Names.TargetKey("t"): `{"effect":"PreferredDuringScheduling"}`}
	got, warnings, err := s.Mutate(asks, from)
	if err != nil {
		return "", err
	}
	if len(warnings) > 0 {
		return map[admission.Reason]string{
			admission.GuaranteedPod:    "Guaranteed",
			admission.ClassWouldChange: "Burstable",
		}[warnings[0].Reason], nil
	}
	for _, c := range slices.Concat(got.Spec.InitContainers, got.Spec.Containers) {
		_, counted := c.Resources.Requests[corev1.ResourceName(s.Names.CoresResource("t"))]
		if _, annotated := got.Annotations[s.Names.ResourcesKey(c.Name)]; !annotated || counted {
			return "Burstable", nil
		}
	}
	return "BestEffort", nil
}

// checkValidate compares the reasons of refusals.
func checkValidate(raw json.RawMessage) error {
	c, err := decode[struct {
		Variant   string
		Pod       *podJSON
		Namespace *struct{ Annotations map[string]string }
		Expect    struct{ Errors []string }
	}](raw)
	if err != nil {
		return err
	}
	if c.Pod == nil { // the kind has two meanings
		return checkTable(raw)
	}
	if c.Namespace == nil {
		return fmt.Errorf("the API server finds the namespace before it asks: %w", errDeviation)
	}
	names := workload.Names{}
	errs := admission.Settings{}.Validate(c.Pod, admission.Origin{Namespace: c.Namespace.Annotations, Node: true})
	typ, asks, _ := names.TargetType(c.Pod.Annotations) // an error is among errs
	errs, strict := withoutStrict(c.Pod, typ, errs)
	_, annotated := names.Allowed(c.Namespace.Annotations, typ)
	more := 0
	if asks && !annotated && len(errs) == len(c.Expect.Errors)+1 && checkRefusal(errs[len(errs)-1], notAllowed, "") == nil {
		more = 1
	}
	if len(errs) != len(c.Expect.Errors)+more {
		return fmt.Errorf("refused for %v; want %v", errs, c.Expect.Errors)
	}
	for i, code := range c.Expect.Errors {
		if err := checkRefusal(errs[i], code, ""); err != nil {
			return err
		}
	}
	switch {
	case strict:
		return fmt.Errorf(asWritten+": %w", errDeviation)
	case more > 0:
		return fmt.Errorf(whereAllowed+": %w", errDeviation)
	}
	return nil
}

// withoutStrict removes errors of annotations from a pod's errors if Go's decoder, which
// OpenShift uses, accepts them: null, keys in other letters or twice, amounts out of range.
func withoutStrict(pod *podJSON, typ string, errs []error) (rest []error, found bool) {
	names := workload.Names{}
	for _, container := range names.AnnotatedContainers(pod.Annotations, "") {
		_, _, wrong := names.ContainerResources(pod.Annotations, typ, container)
		d := json.NewDecoder(strings.NewReader(pod.Annotations[names.ResourcesKey(container)]))
		d.DisallowUnknownFields()
		var lenient struct {
			Shares uint64 `json:"cpushares"`
			Limit  int64  `json:"cpulimit"`
		}
		if wrong == nil || d.Decode(&lenient) != nil || d.More() {
			continue
		}
		before := len(errs)
		errs = slices.DeleteFunc(errs, func(err error) bool { return err.Error() == wrong.Error() })
		found = found || len(errs) < before
	}
	return errs, found
}

// checkStatic rewrites a static pod's manifest by the rules of all other pods.
func checkStatic(raw json.RawMessage) error {
	c, err := decode[admitCase](raw)
	if err != nil {
		return err
	}
	switch {
	case c.Variant != "":
		return fmt.Errorf(givenUp+": %w", errDeviation)
	case c.PinningFile != nil && !*c.PinningFile:
		return fmt.Errorf("no file enables this: rewriting a manifest is an explicit request: %w", errDeviation)
	}
	s := settings(&c.Pod, true, false)
	if managed := c.Expect.Managed; managed != nil && !*managed {
		got, warnings, err := s.Mutate(&c.Pod, admission.Origin{Manifest: true})
		if err != nil || len(warnings) > 0 {
			return fmt.Errorf("%v, %w; want the pod as it is", warnings, err)
		}
		return compare("pod", got, &c.Pod)
	}
	if err := c.checkResult(s, admission.Origin{Manifest: true}); err != nil {
		return c.staticDeviation(err)
	}
	return nil
}

// staticDeviation knows the differences between OpenShift's kubelet and its admission.
func (c *admitCase) staticDeviation(err error) error {
	lacks := func(c corev1.Container) bool {
		return len(c.Resources.Requests) == 0 || c.Resources.Requests.Cpu().IsZero()
	}
	switch {
	case c.Expect.Error != nil:
		return fmt.Errorf(staticLacks+": %w", errDeviation)
	case malformedTarget(&c.Pod):
		return fmt.Errorf(staticWords+": %w", errDeviation)
	case undefaulted(&c.Pod):
		return fmt.Errorf(asKubernetes+": %w", errDeviation)
	case slices.ContainsFunc(slices.Concat(c.Pod.Spec.InitContainers, c.Pod.Spec.Containers), lacks):
		return fmt.Errorf(staticSame+": %w", errDeviation)
	case c.losesClass():
		return fmt.Errorf(staticClass+": %w", errDeviation)
	}
	if c.forgetForeign() && c.checkResult(settings(&c.Pod, true, false), admission.Origin{Manifest: true}) == nil {
		return fmt.Errorf(staticForeign+": %w", errDeviation)
	}
	return err
}

// losesClass reports whether the pod is not rewritten because its QoS class would
// change.
func (c *admitCase) losesClass() bool {
	_, warnings, err := settings(&c.Pod, true, false).Mutate(&c.Pod, admission.Origin{Manifest: true})
	return err == nil && len(warnings) == 1 && warnings[0].Reason == admission.ClassWouldChange && c.Expect.Warning == nil
}

// forgetForeign removes the expected resources of containers that the pod does not have.
func (c *admitCase) forgetForeign() bool {
	has, found := resourcesOf(&c.Pod), false
	for _, name := range (workload.Names{}).AnnotatedContainers(c.Pod.Annotations, "") {
		if _, ok := has[name]; !ok {
			delete(c.Expect.Annotations, workload.Names{}.ResourcesKey(name))
			found = true
		}
	}
	return found
}

// malformedTarget reports whether the pod requests a type in an invalid form.
func malformedTarget(pod *podJSON) bool {
	_, _, wrong := workload.Names{}.Target(pod.Annotations)
	return wrong != nil
}
