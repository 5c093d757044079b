package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// A badAmount is the error of an amount that Kubernetes cannot read.
type badAmount struct{ text, message string }

func (e *badAmount) Error() string { return e.message }

// isTemplated reports whether the amount is the variable of a template, such as {{ .cpu }}.
func (e *badAmount) isTemplated() bool {
	return slices.ContainsFunc([]string{"{{", "${", "$("}, func(start string) bool { return strings.Contains(e.text, start) })
}

// amounts refuses amounts of resources with an exponent of three digits or more:
// Kubernetes' parser takes hours for some, and no machine has as much. v is what YAML or
// JSON decodes to.
func amounts(v any) error { return walk(v, false) }

// isEndless reports whether an amount has an exponent of three digits or more.
func isEndless(text string) bool {
	return strings.ContainsAny(text, "eE") && regexp.MustCompile(`[eE][+-]?[0-9]{3}`).MatchString(text)
}

// podAmounts returns an error for the first amount of a pod's resources that Kubernetes cannot
// read, with its container and field. pod is the result of decoding YAML or JSON.
func podAmounts(pod map[string]any) error {
	spec, _ := pod["spec"].(map[string]any)
	for _, key := range []string{"initContainers", "containers", "ephemeralContainers"} {
		list, _ := spec[key].([]any)
		for i, item := range list {
			c, _ := item.(map[string]any)
			name, _ := c["name"].(string)
			if err := resourceAmounts(fmt.Sprintf("spec.%s[%.253s]", key, cmp.Or(name, strconv.Itoa(i))), c); err != nil {
				return err
			}
		}
	}
	return cmp.Or(resourceAmounts("spec", spec), listAmounts("spec.overhead", spec["overhead"], anyAmount))
}

// resourceAmounts checks the field resources of a container or of a pod's spec.
func resourceAmounts(path string, of map[string]any) error {
	resources, _ := of["resources"].(map[string]any)
	return cmp.Or(listAmounts(path+".resources.requests", resources["requests"], anyAmount),
		listAmounts(path+".resources.limits", resources["limits"], anyAmount))
}

func anyAmount(resource.Quantity) error { return nil }

// listAmounts checks the amounts of a list of resources at a path. Check is for amounts of CPU.
func listAmounts(path string, value any, check func(resource.Quantity) error) error {
	list, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		isCPU := name == "cpu" || name == "requests.cpu" || name == "limits.cpu"
		q, err := amount(list[name], isCPU)
		if err == nil && isCPU {
			err = check(q)
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", path, name, err)
		}
	}
	return nil
}

// amount returns a value of a list of resources, or an error with the value and the remedy. Null is
// 0, as if it was not written.
func amount(value any, isCPU bool) (q resource.Quantity, err error) {
	if value == nil {
		return q, nil
	}
	text := fmt.Sprint(value)
	if !isEndless(text) {
		if q, err = resource.ParseQuantity(text); err == nil {
			return q, nil
		}
	}
	if isCPU {
		return q, &badAmount{text, fmt.Sprintf("%.40q is no number of CPUs; write CPUs such as 2, or thousandths such as 500m", text)}
	}
	return q, noAmount(text)
}

func noAmount(text string) error {
	return &badAmount{text, fmt.Sprintf("%.40q is no amount; write one such as 500m or 2Gi", text)}
}

// walk checks the texts that are amounts: those in maps of resources, and a few by themselves.
func walk(v any, within bool) error {
	switch v := v.(type) {
	case string:
		if within && isEndless(v) {
			return noAmount(v)
		}
	case []any:
		for _, item := range v {
			if err := walk(item, within); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range v {
			switch key {
			case "limits", "requests", "overhead", "capacity", "consumedCapacity", "counters", "allocatable", "sizeLimit", "divisor":
				if err := walk(value, true); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			default:
				if err := walk(value, within); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
