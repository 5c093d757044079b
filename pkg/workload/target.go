package workload

import (
	"errors"
	"slices"
)

// preferred is the only effect that there is.
const preferred = "PreferredDuringScheduling"

// TargetValue is the value of the annotation that asks for a workload type, as a
// webhook writes it.
const TargetValue = `{"effect":"` + preferred + `"}`

// Target returns the workload type that a pod requests; found is false without
// a request. Several types, a type without a name, and any other value than
// {"effect":"PreferredDuringScheduling"} are errors: OpenShift's admission refuses such pods
// (managementcpusoverride, getWorkloadType and getAnnotationEffect).
func (n Names) Target(annotations map[string]string) (typ string, found bool, err error) {
	typ, found, err = n.TargetType(annotations)
	if !found || err != nil {
		return "", found, err
	}
	value, _ := n.lookup(annotations, targetPrefix, typ)
	if err := checkEffect(value); err != nil {
		return "", true, &AnnotationError{n.TargetKey(typ), value, err.Error(), n.targetRemedy()}
	}
	return typ, true, nil
}

// TargetType is [Names.Target] without a check of the value: for a pod that may not have the
// type, an error of the value is of no use.
func (n Names) TargetType(annotations map[string]string) (typ string, found bool, err error) {
	domain := n.domain()
	var first, second string // the least keys that ask for a type
	for key := range annotations {
		switch _, ok := cutKey(key, targetPrefix, domain); {
		case !ok:
		case first == "":
			first = key
		default:
			if key < first {
				first, key = key, first
			}
			if second == "" || key < second {
				second = key
			}
		}
	}
	if first == "" {
		return "", false, nil
	}
	if second != "" {
		return "", true, &AnnotationError{first, annotations[first],
			"there is another one, " + clip(second), "keep the annotation of one workload type only"}
	}
	if typ, _ = cutKey(first, targetPrefix, domain); typ == "" {
		return "", true, &AnnotationError{first, annotations[first], "no workload type after the slash", n.targetRemedy()}
	}
	return typ, true, nil
}

func (n Names) targetRemedy() string {
	return "write " + clip(n.TargetKey("<type>")) + ": " + TargetValue
}

func checkEffect(value string) error {
	if value == TargetValue {
		return nil
	}
	members, err := parseObject(value)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return errors.New("no effect")
	}
	for _, m := range members {
		if m.key != "effect" {
			return errors.New("unknown key " + quote(m.key))
		}
	}
	if members[0].value != preferred { // no key is there twice
		return errors.New("effect is not the string " + preferred)
	}
	return nil
}

// AnnotatedContainers returns the sorted names of the containers to which annotations give
// resources in the new form, or shares for typ in the old form. If typ is "", shares for any
// type count. [Names.CheckOldForm] returns the other annotations in the old form.
func (n Names) AnnotatedContainers(annotations map[string]string, typ string) []string {
	domain := n.domain()
	var names []string
	for key := range annotations {
		if c, ok := cutKey(key, resourcesPrefix, domain); ok {
			names = append(names, c)
		} else if k, ok := parseOldKey(key, domain); ok && k.resource == sharesResource && (typ == "" || k.typ == typ) {
			names = append(names, k.container)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
