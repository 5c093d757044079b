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

// Target returns the workload type that a pod asks for; found is false when the
// pod asks for none. It is an error when the pod asks for several types, for one
// without a name, or in any other words than
// {"effect":"PreferredDuringScheduling"}: OpenShift's admission refuses such pods
// (managementcpusoverride, getWorkloadType and getAnnotationEffect).
func (n Names) Target(annotations map[string]string) (typ string, found bool, err error) {
	typ, found, err = n.TargetType(annotations)
	if !found || err != nil {
		return "", found, err
	}
	key := n.TargetKey(typ)
	if err := checkEffect(annotations[key]); err != nil {
		return "", true, badAnnotation(key, annotations[key], err.Error(), n.targetRemedy())
	}
	return typ, true, nil
}

// TargetType is [Names.Target] without a look at the words: who may not have the
// type, or nobody may, need not be told that they are wrong.
func (n Names) TargetType(annotations map[string]string) (typ string, found bool, err error) {
	domain := n.domain()
	var types []string
	for key := range annotations {
		if t, ok := cutKey(key, targetPrefix, domain); ok {
			types = append(types, t)
		}
	}
	if len(types) == 0 {
		return "", false, nil
	}
	slices.Sort(types)
	key := n.TargetKey(types[0])
	value := annotations[key]
	if len(types) > 1 {
		return "", true, badAnnotation(key, value,
			"there is another one, "+clip(n.TargetKey(types[1])), "keep the annotation of one workload type only")
	}
	if types[0] == "" {
		return "", true, badAnnotation(key, value, "no workload type after the slash", n.targetRemedy())
	}
	return types[0], true, nil
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

// AnnotatedContainers returns the sorted names of the containers that a pod has
// resources annotations for, in either form; of the old form only those for typ,
// or for any type when typ is "".
func (n Names) AnnotatedContainers(annotations map[string]string, typ string) []string {
	if len(annotations) == 0 {
		return nil
	}
	domain, old := n.domain(), n.oldDomain()
	var names []string
	for key := range annotations {
		if c, ok := cutKey(key, resourcesPrefix, domain); ok {
			names = append(names, c)
		} else if t, c, ok := cutOldKey(key, old); ok && (typ == "" || t == typ) {
			names = append(names, c)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
