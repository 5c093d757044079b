package verdict

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/spelling"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Codes of reasons that the planner does not know: the node does not see what caused them.
const (
	// annotationUnknown: an annotation is written almost like one that requests a workload type.
	annotationUnknown pools.Code = "AnnotationUnknown"
	// annotationLate: an annotation requests a workload type, and was added to a pod that existed.
	annotationLate pools.Code = "AnnotationLate"
	// labelIgnored: a label requests a workload type, and only annotations do.
	labelIgnored pools.Code = "LabelIgnored"
	// webhookIgnored: the webhook removed the annotation, for a reason that only it has.
	webhookIgnored pools.Code = "WebhookIgnored"
)

// optionPrefix begins the annotations by which a pod selects options.
const optionPrefix = "cpupoold.io/"

// annotations is a value of Verdict.Field.
const annotations = "annotations"

// Verdict is the answer for a container or a unit.
type Verdict struct {
	// Code is the stable name of the reason.
	Code pools.Code
	// Sentence states place and reason. Fix states what to change for other CPUs; it is empty if
	// there is nothing to change.
	Sentence, Fix string
	// Field is annotations, labels or containers, and Subject the key or the name in this field
	// that is the reason.
	Field, Subject string
}

// reason is the end of a sentence.
type reason struct {
	code         pools.Code
	because, fix string
	// wide is true if the reason is the same for all containers of the pod.
	wide bool
	// field and subject are Verdict.Field and Verdict.Subject.
	field, subject string
}

// Of returns the verdict for a container or a unit. at is its placement; problems are the problems of
// the container and of its pod.
func Of(at *inspect.Container, problems []inspect.Problem, pod *Pod) Verdict {
	r := pod.reason(at, problems)
	subject := clip(at.Name)
	switch {
	case at.Unit:
		subject = "unit " + subject
	case r.wide:
		subject = clip(pod.Name)
	default:
		subject = pod.container(at.Name).named() + " of " + clip(pod.Name)
	}
	return Verdict{Code: r.code, Sentence: subject + " " + pod.place(at, r.code) + ", because " + r.because + ".", Fix: r.fix, Field: r.field, Subject: r.subject}
}

// place returns the verb and the pool.
func (p *Pod) place(at *inspect.Container, code pools.Code) string {
	runs, has := "runs", "has"
	if p.Pending {
		runs, has = "would run", "would have"
	}
	switch {
	case code == pools.CodeClaim && !at.Exclusive:
		return runs + " on exclusive CPUs that containers of its pod share"
	case code == pools.CodeClaim:
		return has + " exclusive CPUs"
	case code == pools.CodePodPool:
		return runs + " on the exclusive CPUs of its pod in the guaranteed pool"
	case at.Exclusive:
		return has + " exclusive CPUs of the guaranteed pool"
	case at.Pool == inspect.Other:
		return runs + " on CPUs that another manager selects"
	case at.Type != "" && at.Type != at.Pool:
		return runs + " in the " + at.Pool + " pool of workload type " + clip(at.Type)
	}
	return runs + " in the " + at.Pool + " pool"
}

// container returns the facts about a container, at least its name.
func (p *Pod) container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return &Container{Kind: "container", Name: name, CPU: Amount{Unknown, Unknown}, Memory: Amount{Unknown, Unknown}}
}

// reason returns the reason of a placement. A request for a workload type that is not granted
// comes before the rule that then places the container.
func (p *Pod) reason(at *inspect.Container, problems []inspect.Problem) reason {
	if !at.Unit && at.Pool != inspect.Management && at.Pool != inspect.Other && len(at.Claims) == 0 {
		if typ, asks, _ := p.Names.TargetType(p.Annotations); asks {
			for _, x := range slices.Backward(problems) {
				text, _, _ := strings.Cut(x.Text, "; the pod is placed")
				if r := p.withoutType(at, pools.Code(x.Code), typ, text); r.code != "" {
					return r
				}
			}
		}
		if at.Pool == inspect.Shared && at.Code != string(pools.CodePause) {
			if r := p.unread(at); r.code != "" {
				return r
			}
		}
	}
	return p.placed(at)
}

// withoutType returns the reason why a pod is not of the workload type that it requests, or none
// for another code.
func (p *Pod) withoutType(at *inspect.Container, code pools.Code, typ, text string) reason {
	key := p.Names.TargetKey(typ)
	r := reason{code: code, wide: true, field: annotations, subject: key}
	typ = clip(typ)
	switch code {
	case pools.CodeTargetInvalid:
		r.because = text
		r.fix = "write " + key + ": '" + workload.TargetValue + "'"
		if i := strings.LastIndex(text, "; "); i >= 0 { // the remedy
			r.because, r.fix = text[:i], text[i+len("; "):]
		}
	case pools.CodeTypeUnknown:
		r.because = "its annotation " + key + " names a workload type that has no pool"
		r.fix = "add a management pool of this type, or remove the annotation"
		if meant := spelling.Near(typ, p.types()); meant != "" {
			r.because += " (did you mean " + meant + "?)"
			r.fix = "write " + p.Names.TargetKey(meant) + " instead"
		}
	case pools.CodeNamespaceNotListed:
		namespace := clip(at.Namespace)
		r.because = "namespace " + namespace + " does not allow workload type " + typ
		r.fix = "annotate namespace " + namespace + " with " + p.Names.AllowedKey() + ": " + typ + " (the webhook requires it), and add it to partitions[].namespaces" +
			" in the configuration of the node (not necessary with namespacePermission: annotation)"
	case pools.CodeNamespaceUnknown, pools.CodeStaticNotAllowed:
		r.because = text
	case pools.CodeGuaranteedPod:
		r.because = "workload type " + typ + " is not for pods of QoS class Guaranteed"
		r.fix = "request less CPU or memory than the limit in one container, or remove annotation " + key
	default:
		return reason{}
	}
	return r
}

// unread returns the reason if a label, a misspelt annotation or the webhook explains why the
// planner saw no request for a workload type, or none.
func (p *Pod) unread(at *inspect.Container) reason {
	r := reason{wide: true, field: annotations}
	if typ, asks, _ := p.Names.TargetType(p.Annotations); asks {
		if code := pools.Code(at.Code); code == pools.CodeBurstable || code == pools.CodeBestEffort {
			r.code, r.subject = annotationLate, p.Names.TargetKey(typ)
			r.because = "its sandbox on the node has no annotation " + r.subject
			r.fix = "create the pod again; if the configuration of the node has another domain, use that domain in the annotation"
		}
		return r
	}
	for line := range strings.Lines(p.Annotations[p.Names.WarningKey()]) {
		if w := p.warned(at, strings.TrimSpace(line)); w.code != "" {
			return w
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if typ, asks, _ := p.Names.TargetType(map[string]string{key: ""}); asks {
			r.code, r.field, r.subject = labelIgnored, "labels", key
			r.because = clip(key) + " is a label, and only an annotation requests a workload type"
			r.fix = "move it to the annotations of the pod: " + p.Names.TargetKey(typ) + ": '" + workload.TargetValue + "'"
			return r
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if meant := p.Meant(key); strings.HasPrefix(meant, "target.") {
			r.code, r.subject = annotationUnknown, key
			r.because = "its annotation " + clip(key) + " has no effect (did you mean " + meant + "?)"
			r.fix = "write " + meant + ": '" + workload.TargetValue + "'"
			return r
		}
	}
	return reason{}
}

// warned returns the reason in a line of the webhook's warning. The planner has the same reason
// for most of them, and then the words are the same.
func (p *Pod) warned(at *inspect.Container, line string) reason {
	quoted, why, _ := strings.Cut(line, " is ignored: ")
	typ, err := strconv.Unquote(strings.TrimPrefix(quoted, "workload type "))
	if err != nil || !strings.HasPrefix(line, "workload type ") {
		return reason{}
	}
	for _, w := range [...]struct {
		text string
		code pools.Code
	}{
		{"the namespace has no annotation", pools.CodeNamespaceNotListed},
		{"the pod is of QoS class Guaranteed", pools.CodeGuaranteedPod},
		{"the webhook's configuration has no such type", pools.CodeTypeUnknown},
	} {
		if strings.HasPrefix(why, w.text) {
			return p.withoutType(at, w.code, typ, "")
		}
	}
	r := reason{code: webhookIgnored, wide: true, field: annotations, subject: p.Names.TargetKey(typ)}
	why, r.fix, _ = strings.Cut(why, "; ")
	r.because = "the webhook ignores workload type " + clip(typ) + ": " + why
	return r
}

// placed returns the reason of the rule that placed the container.
func (p *Pod) placed(at *inspect.Container) reason {
	text, _, _ := strings.Cut(at.Reason, "; runs in ")
	r := reason{code: pools.Code(at.Code), field: "containers", subject: at.Name}
	c := p.container(at.Name)
	switch r.code {
	case pools.CodeManagement:
		r.wide = true
		r.because = "it requests workload type " + clip(at.Type)
	case pools.CodeBestEffort, pools.CodeBurstable:
		r.wide = true
		because, fields, first := p.class()
		r.subject = first
		if because == "" {
			because, fields = "a container has no limit, or requests less CPU or memory than its limit", "requests and limits of CPU and memory in all containers"
		}
		r.because = because + ", so the pod is " + at.Code
		where := "all containers"
		if p.Total != nil {
			where = p.Total.Name
		}
		r.fix = "for exclusive CPUs set " + fields + ", with requests equal to limits in " + where
	case pools.CodeFractional:
		amount, _, _ := strings.Cut(text, " CPU ")
		r.because = "its CPU request of " + amount + " is not a whole number of CPUs"
		r.fix = "for exclusive CPUs set resources.requests.cpu and resources.limits.cpu of " + c.named() + " to a whole number"
		if p.Total != nil && c.CPU == (Amount{}) {
			r.because = "it has the CPU request of its pod, and the " + amount + " in spec.resources are not a whole number of CPUs"
			r.fix = "for exclusive CPUs set requests.cpu and limits.cpu of spec.resources to a whole number"
		}
	case pools.CodeNoGuaranteedPool:
		text, _, _ = strings.Cut(text, ", but ")
		r.because = "it requests " + text + ", and the node has no guaranteed pool"
		r.fix = "write guaranteed: {from: shared} or guaranteed.cpus into the configuration of the node"
	case pools.CodeExclusive:
		r.because = "it requests " + text
	case pools.CodeClaim:
		r.because = "it uses " + claimNames(at)
	case pools.CodeWaiting:
		text, _, _ = strings.Cut(text, ", as soon")
		r.because = "it requests " + text + ", and the NUMA nodes of its devices and memory are not known yet"
	case pools.CodeRefused:
		if len(at.Claims) > 0 { // the text names the claim
			r.because, r.fix = text, "bring offline CPUs of the claim online, or delete the pod, so that the scheduler allocates other CPUs"
			break
		}
		r.because, r.fix, _ = strings.Cut("it "+text, "; ")
		switch less := "request fewer CPUs in " + c.named(); {
		case r.fix != "":
		case strings.HasSuffix(r.because, "(guaranteed.floor)"): // the pool is a part of the shared pool
			r.fix = less + ", lower guaranteed.floor in the configuration of the node, or wait until other containers end"
		default:
			r.fix = less + ", enlarge the guaranteed pool (guaranteed.cpus), or wait until other containers end"
		}
	case pools.CodePause:
		r.because = "it is a " + text
	case pools.CodeOtherManager:
		r.because = "it is " + text
	case pools.CodeNoRequest:
		r.because = "it has " + text
	case pools.CodeUnit:
		r.because = text
		if !strings.HasPrefix(text, "the ") {
			r.because = "it requests " + text
		}
	case pools.CodeHeld, pools.CodeExited, pools.CodeShort, pools.CodePodPool, pools.CodeOffline, pools.CodeCrowded:
		r.because, r.fix, _ = strings.Cut("it "+text, "; ")
		r.fix = ""
	default: // a whole sentence
		r.because = text
	}
	return r
}

// claimNames returns the names of the ResourceClaims of a container.
func claimNames(at *inspect.Container) string {
	var names []string
	for _, full := range at.Claims {
		_, name, _ := strings.Cut(full, "/")
		names = append(names, clip(name))
	}
	if len(names) == 1 {
		return "ResourceClaim " + names[0]
	}
	return "ResourceClaims " + strings.Join(names, " and ")
}

// types returns the workload types with a pool, or the usual one if they are not known.
func (p *Pod) types() []string {
	if len(p.Types) == 0 {
		return []string{inspect.Management}
	}
	return p.Types
}

// OptionError returns the error of an annotation that selects an option of exclusive CPUs with a
// value that the option does not have. It returns nil for other annotations.
func (p *Pod) OptionError(key, value string) error {
	option, is := strings.CutPrefix(key, optionPrefix)
	if !is || !slices.Contains(allocate.OptionNames(), option) {
		return nil
	}
	return new(allocate.Options).Set(option, value)
}

// Meant returns the annotation of a pod that a misspelt key is closest to, or "" for a key that
// is right or means something else.
func (p *Pod) Meant(key string) string {
	var known []string
	for _, typ := range p.types() {
		known = append(known, p.Names.TargetKey(typ))
		// OpenShift's first form had the type in the domain itself.
		if key == strings.TrimSuffix(p.Names.AllowedKey(), "allowed")+typ {
			return p.Names.TargetKey(typ)
		}
	}
	if pools.ReadsAnnotation(p.Names, key) && !strings.HasPrefix(key, optionPrefix) {
		return ""
	}
	for _, option := range append(allocate.OptionNames(), "pod-level") {
		known = append(known, optionPrefix+option)
	}
	domain := strings.TrimSuffix(p.Names.AllowedKey(), "/allowed")
	_, container, isOne := strings.Cut(key, "/")
	if isOne {
		container = "/" + container
		known = append(known, "resources."+domain+container)
	}
	for _, name := range []string{"cpu-load-balancing.", "irq-load-balancing.", "cpu-c-states.", "cpu-freq-governor.", "cpu-shared."} {
		known = append(known, name+"crio.io"+container, name+domain+container)
	}
	return spelling.Near(key, append(known, "cpu-quota.crio.io"+container, "cpu-energy-preference."+domain+container))
}
