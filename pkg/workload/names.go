package workload

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// The domains are OpenShift's.
const (
	defaultDomain     = "workload.openshift.io"
	defaultPoolDomain = "openshift.io"
)

// Names configures the names of the annotations. The zero value gives the names that
// OpenShift uses.
type Names struct {
	// Domain is a DNS subdomain that replaces workload.openshift.io in each
	// name; "" is workload.openshift.io itself.
	Domain string
	// PoolDomain replaces openshift.io in the names of the resources of the
	// shared and the guaranteed pool; "" is openshift.io itself.
	PoolDomain string
}

// DepletedTaint is the key of the taint on a node whose shared pool is depleted. Pods
// with a CPU request are among what the pool was measured by, and pods of a workload
// type do not run in it; both tolerate it.
const DepletedTaint = "node.cpupoold.io/shared-cpus-depleted"

// The parts that stand before the domain.
const (
	targetPrefix    = "target."
	resourcesPrefix = "resources."
)

// sharesResource is the only resource that is read in the old form.
const sharesResource = "cpushares"

// TargetKey is the name of the pod annotation that requests a workload type.
func (n Names) TargetKey(typ string) string { return targetPrefix + n.domain() + "/" + typ }

// ResourcesKey is the name of the pod annotation with a container's resources.
func (n Names) ResourcesKey(container string) string {
	return resourcesPrefix + n.domain() + "/" + container
}

// WarningKey is the name of the pod annotation with the reasons why a webhook has rejected
// requests of the pod.
func (n Names) WarningKey() string { return n.domain() + "/warning" }

// Requests reports whether a pod annotation of this name asks for a workload type or gives a
// container resources. Each name below the reversed domain that has a slash is in the old
// form, whatever the resource is: CRI-O reads a cpuset there, too. Remove such annotations
// from pods of authors who are not trusted.
func (n Names) Requests(key string) bool {
	domain := n.domain()
	if _, ok := cutKey(key, targetPrefix, domain); ok {
		return true
	}
	if _, ok := cutKey(key, resourcesPrefix, domain); ok {
		return true
	}
	_, ok := parseOldKey(key, domain)
	return ok
}

// Reads reports whether a method of n reads the value of a pod annotation of this name. It
// is also true for the names of CRI-O that these methods know.
func (n Names) Reads(key string) bool {
	if n.Requests(key) {
		return true
	}
	for _, prefix := range [...]string{balancingPrefix, interruptsPrefix, mixedPrefix, cStatesPrefix, governorPrefix, preferencePrefix} {
		if _, ok := cutKey(key, prefix, n.domain()); ok {
			return true
		}
		if name, ok := strings.CutPrefix(key, prefix); ok {
			if domain, _, _ := strings.Cut(name, "/"); domain == crioDomain {
				return true
			}
		}
	}
	return false
}

// AllowedKey is the name of the namespace annotation with the workload types that
// pods of the namespace may ask for, separated by commas.
func (n Names) AllowedKey() string { return n.domain() + "/allowed" }

func (n Names) domain() string {
	return cmp.Or(n.Domain, defaultDomain)
}

// OldPrefix returns the start of the names in the old form for a workload type, as the
// enhancement writes it for CRI-O: io.openshift.workload.management. Between it and a slash
// stands the resource.
func (n Names) OldPrefix(typ string) string {
	labels := strings.Split(n.domain(), ".")
	slices.Reverse(labels)
	return strings.Join(append(labels, typ), ".")
}

// cutKey returns the rest of key after prefix, domain and slash. It is called for
// each annotation of each pod and does not allocate.
func cutKey(key, prefix, domain string) (string, bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutPrefix(rest, domain); !ok {
		return "", false
	}
	return strings.CutPrefix(rest, "/")
}

// oldKey holds the parts of a name in the old form.
type oldKey struct {
	typ string
	// resource is empty in the names that today's CRI-O looks up where annotation_prefix is
	// [Names.OldPrefix] (pkg/config/workloads.go).
	resource, container string
}

// parseOldKey splits a name in the old form. It is called for each annotation of each pod
// and does not allocate.
func parseOldKey(key, domain string) (oldKey, bool) {
	rest, ok := cutReversed(key, domain)
	if !ok {
		return oldKey{}, false
	}
	slash := strings.LastIndexByte(rest, '/')
	if slash < 0 {
		return oldKey{}, false
	}
	// A type may have dots of its own; resource and container have neither dot nor slash.
	k := oldKey{typ: rest[:slash], container: rest[slash+1:]}
	if dot := strings.LastIndexByte(k.typ, '.'); dot >= 0 {
		k.typ, k.resource = k.typ[:dot], k.typ[dot+1:]
	}
	return k, true
}

// cutReversed returns the rest of key after the labels of domain in reverse order and a dot.
func cutReversed(key, domain string) (string, bool) {
	for {
		dot := strings.LastIndexByte(domain, '.')
		rest, ok := strings.CutPrefix(key, domain[dot+1:])
		if !ok {
			return "", false
		}
		if key, ok = strings.CutPrefix(rest, "."); !ok {
			return "", false
		}
		if dot < 0 {
			return key, true
		}
		domain = domain[:dot]
	}
}

// coresSuffix follows the domain in the name of a workload type's resource.
const coresSuffix = "/cores"

// CoresResource is the name of the extended resource, in thousandths of a CPU, by
// which the scheduler counts the containers of a workload type.
func (n Names) CoresResource(typ string) string { return typ + "." + n.domain() + coresSuffix }

// CoresType returns the workload type whose CPUs an extended resource counts, and
// false for any other resource.
func (n Names) CoresType(resource string) (typ string, ok bool) {
	rest, ok := strings.CutSuffix(resource, coresSuffix)
	if !ok {
		return "", false
	}
	if rest, ok = strings.CutSuffix(rest, n.domain()); !ok {
		return "", false
	}
	return strings.CutSuffix(rest, ".")
}

// IsPool reports whether an extended resource counts the CPUs of a pool.
func (n Names) IsPool(resource string) bool {
	_, cores := n.CoresType(resource)
	return cores || resource == n.SharedResource() || resource == n.GuaranteedResource()
}

// SharedResource is the name of the extended resource, in thousandths of a CPU, by
// which the scheduler counts the containers of the shared pool.
func (n Names) SharedResource() string { return n.poolDomain() + "/shared-cpus" }

// GuaranteedResource is the name of the extended resource, in thousandths of a
// CPU, by which the scheduler counts the containers with exclusive CPUs.
func (n Names) GuaranteedResource() string { return n.poolDomain() + "/guaranteed-cpus" }

func (n Names) poolDomain() string {
	return cmp.Or(n.PoolDomain, defaultPoolDomain)
}

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
	if members[0].value != preferred { // no key occurs twice
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
