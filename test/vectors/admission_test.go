package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// podJSON is a pod in the form of the files: restartPolicy of a container and all
// quantities have the types of the API.
type podJSON = corev1.Pod

// admitCase is a created pod. OpenShift's switch is a flag of the cluster. Ours is a
// setting, and the case's flag is its value.
type admitCase struct {
	Name      string
	Variant   string
	Operation string
	Resource  string
	// Subresource is set where it is not the pod itself that is made.
	Subresource string
	Pod         podJSON
	Namespace   *struct{ Annotations map[string]string }
	// NamespaceAnnotations are given by the files of the pools; without them the
	// namespace allows all types.
	NamespaceAnnotations map[string]string `json:"namespace_annotations"`
	Nodes                []struct{ Allocatable map[string]string }
	Infrastructure       map[string]string
	PinningFile          *bool `json:"pinning_file_exists"`
	Expect               struct {
		Error *struct {
			Code, Class, Container string
		}
		Managed          *bool
		Annotations      map[string]string
		AnnotationsAdded map[string]string `json:"annotations_added"`
		Containers       map[string]resourcesJSON
		Warning          *struct{ Code string }
		Added            map[string]map[string]string
		Removed          map[string][]string
	}
}

type resourcesJSON struct{ Requests, Limits map[string]string }

// infrastructure reports whether OpenShift's cluster does workload partitioning. It is
// false for a cluster without a usable Infrastructure object.
func (c *admitCase) infrastructure() (on, usable bool) {
	if len(c.Infrastructure) == 0 {
		return false, false
	}
	if c.Infrastructure["controlPlaneTopology"] == "" && c.Infrastructure["infrastructureTopology"] == "" {
		return false, true
	}
	if c.Infrastructure["cpuPartitioning"] == "AllNodes" {
		return len(c.Nodes) > 0, true
	}
	single := c.Infrastructure["controlPlaneTopology"] == "SingleReplica"
	names := workload.Names{}
	typ, _, _ := names.TargetType(c.Pod.Annotations) // an error is one whatever the cluster
	reports := slices.ContainsFunc(c.Nodes, func(n struct{ Allocatable map[string]string }) bool {
		_, ok := n.Allocatable[names.CoresResource(typ)]
		return ok
	})
	return single && reports, true
}

// settings has all types that the pod asks for switched on or off.
func settings(pod *podJSON, on, pools bool) admission.Settings {
	s := admission.Settings{Types: map[string]bool{}, SharedCPUs: pools, GuaranteedCPUs: pools}
	for key := range pod.Annotations {
		if typ, ok := strings.CutPrefix(key, s.Names.TargetKey("")); ok {
			s.Types[typ] = on
		}
	}
	return s
}

func checkAdmit(raw json.RawMessage) error {
	c, err := decode[admitCase](raw)
	if err != nil {
		return err
	}
	if c.Operation != "" && c.Operation != "CREATE" || c.Resource != "" && c.Resource != "pods" || c.Subresource != "" {
		return fmt.Errorf(podsAreMade+": %w", errDeviation)
	}
	if c.Expect.Added != nil {
		return c.checkPools()
	}
	_, asks, targetErr := workload.Names{}.TargetType(c.Pod.Annotations)
	on, usable := c.infrastructure()
	switch {
	case asks && targetErr == nil && !usable:
		return fmt.Errorf("there is no Infrastructure object: %w", errDeviation)
	case asks && targetErr == nil && on && c.Namespace == nil:
		return fmt.Errorf("the API server finds the namespace before it asks: %w", errDeviation)
	}
	from := admission.Origin{Node: true}
	if c.Namespace != nil {
		from.Namespace = c.Namespace.Annotations
	}
	// OpenShift drops an annotation silently where the type is off; we must do the same, and warn.
	silent := asks && !on && c.Expect.Warning == nil && c.Expect.Error == nil
	if silent {
		c.Expect.Warning = &struct{ Code string }{string(admission.TypeOff)}
	}
	err = c.checkResult(settings(&c.Pod, on, false), from)
	switch {
	case err == nil && silent:
		return fmt.Errorf(offIsWarned+": %w", errDeviation)
	case err == nil:
		return nil
	case strings.HasPrefix(c.Variant, "4.12 only"):
		return fmt.Errorf(outOfDate+": %w", errDeviation)
	case from.Namespace["allowed.workload.openshift.io"] != "":
		return fmt.Errorf("the older annotation of namespaces counts: %w", errDeviation)
	case undefaulted(&c.Pod):
		return fmt.Errorf(asKubernetes+": %w", errDeviation)
	case strings.Contains(err.Error(), "repeated key"):
		return fmt.Errorf("a key that occurs twice is an error: %w", errDeviation)
	}
	return err
}

// undefaulted reports whether a container has a limit and no request of its own, or a
// request of 0. OpenShift's helper and its unit tests read both differently from
// Kubernetes.
func undefaulted(pod *podJSON) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		for name, limit := range c.Resources.Limits {
			if r, ok := c.Resources.Requests[name]; (!ok || r.IsZero()) && !limit.IsZero() {
				return true
			}
		}
		return false
	})
}

// checkResult admits the pod and compares annotations, resources, warning and error.
func (c *admitCase) checkResult(s admission.Settings, from admission.Origin) error {
	got, warnings, err := s.Mutate(&c.Pod, from)
	if want := c.Expect.Error; want != nil {
		return checkRefusal(err, want.Code, want.Class)
	}
	if err != nil {
		return fmt.Errorf("refused: %w", err)
	}
	want := ""
	if c.Expect.Warning != nil {
		want = c.Expect.Warning.Code
	}
	if err := checkWarning(got, warnings, want); err != nil {
		return err
	}
	annotations := map[string]any{}
	for key, value := range got.Annotations {
		if key != s.Names.WarningKey() {
			annotations[key] = asJSON(value)
		}
	}
	expected := map[string]any{}
	for key, value := range c.Expect.Annotations {
		expected[key] = asJSON(value)
	}
	if err := compare("annotations", annotations, expected); err != nil {
		return err
	}
	return compare("containers", resourcesOf(got), normal(c.Expect.Containers))
}

// warningCodes are the files' codes for ours.
func warningCodes() map[admission.Reason]string {
	return map[admission.Reason]string{
		admission.NamespaceNotAnnotated: "namespace_not_annotated",
		admission.GuaranteedPod:         "guaranteed_qos",
		admission.ClassWouldChange:      "qos_would_change",
	}
}

// checkWarning checks the one warning that there may be, and that the annotation
// is there exactly then.
func checkWarning(pod *podJSON, warnings []admission.Warning, want string) error {
	text, annotated := pod.Annotations[workload.Names{}.WarningKey()]
	got := ""
	if len(warnings) > 0 {
		if got = warningCodes()[warnings[0].Reason]; got == "" {
			got = string(warnings[0].Reason)
		}
	}
	switch {
	case got != want || len(warnings) > 1:
		return fmt.Errorf("warnings %v; want %q", warnings, want)
	case annotated != (want != ""):
		return fmt.Errorf("warning annotation %q; want one: %t", text, want != "")
	}
	return nil
}

// notAllowed is the code of a type that the pod's namespace does not allow.
const notAllowed = "namespace_does_not_allow_type"

// refusalWords returns the possible words of a refusal with a code.
func refusalWords() map[string][]string {
	return map[string][]string{
		"multiple_target_annotations":        {"there is another one"},
		"empty_workload_type":                {"no workload type after the slash"},
		"effect_bad_json":                    {"not a JSON object", "malformed JSON", "effect is not the string", "nested JSON", "text after", "unknown key", "repeated key"},
		"effect_more_than_one_key":           {"unknown key", "repeated key"},
		"effect_missing":                     {"no effect", "unknown key", "not a JSON object"}, // null is read as {}
		"effect_unsupported":                 {"effect is not the string"},
		notAllowed:                           {"does not allow workload type"},
		"resource_annotation_unknown_field":  {"cannot choose its CPUs", "unknown key"},
		"resource_annotation_without_target": {"no annotation asks for a workload type"},
		"resource_annotation_bad_type":       {"is not a number", "is not a whole number", "nested JSON", "is negative", "too large", "is outside"},
		"resource_annotation_bad_json":       {"not a JSON object", "malformed JSON", "text after"},
		"workload_resource_without_target":   {"the pod is of no workload type"},
	}
}

// checkRefusal checks an error against a code and, if there is one, its class.
func checkRefusal(err error, code, class string) error {
	if err == nil {
		return fmt.Errorf("not refused; want %s", code)
	}
	refusal, ok := errors.AsType[*admission.Refusal](err)
	if !ok {
		return fmt.Errorf("error is no refusal; want %s: %w", code, err)
	}
	if class != "" && refusal.Forbidden != (class == "Forbidden") {
		return fmt.Errorf("refusal %q is forbidden: %t; want %s", refusal.Message, refusal.Forbidden, class)
	}
	says := func(words string) bool { return strings.Contains(refusal.Message, words) }
	if !slices.ContainsFunc(refusalWords()[code], says) {
		return fmt.Errorf("refusal %q; want %s", refusal.Message, code)
	}
	return nil
}

// asJSON is the value of a text that is JSON, and the text itself otherwise.
func asJSON(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

// normal writes quantities as the API server does.
func normal(containers map[string]resourcesJSON) map[string]resourcesJSON {
	all := map[string]resourcesJSON{}
	for name, r := range containers {
		all[name] = resourcesJSON{normalList(r.Requests), normalList(r.Limits)}
	}
	return all
}

func normalList(list map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range list {
		q, err := resource.ParseQuantity(value)
		if err != nil {
			all[name] = value
			continue
		}
		all[name] = q.String()
	}
	return all
}

func resourcesOf(pod *podJSON) map[string]resourcesJSON {
	all := map[string]resourcesJSON{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		all[c.Name] = resourcesJSON{texts(c.Resources.Requests), texts(c.Resources.Limits)}
	}
	return all
}

func texts(list corev1.ResourceList) map[string]string {
	all := map[string]string{}
	for name, q := range list {
		all[string(name)] = q.String()
	}
	return all
}
