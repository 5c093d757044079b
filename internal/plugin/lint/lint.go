// Package lint finds mistakes in manifests that would keep pods out of their pools,
// before the manifests are in a cluster.
package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// Settings holds the options of a check.
type Settings struct {
	Admission admission.Settings
	// Namespace is the namespace of objects without one.
	Namespace string
	// Allowed are the workload types that namespaces allow which are not among the
	// files. If it is nil, the permissions of other namespaces are unknown. Otherwise
	// namespaces without an entry allow no type.
	Allowed map[string][]string
}

// File holds the objects of a file.
type File struct {
	Name    string
	Objects []manifest.Object
}

// Finding is one thing that is wrong.
type Finding struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Message   string `json:"message"`
	Remedy    string `json:"remedy"`
	// Code is the problem code of the reason that explain has, too; empty for other findings.
	Code string `json:"code,omitempty"`
}

// String is one line.
func (f Finding) String() string {
	code := ""
	if f.Code != "" {
		code = " [" + f.Code + "]"
	}
	return oneLine(fmt.Sprintf("%s:%d %s/%s: %s (%s)%s", f.File, f.Line, f.Kind, f.Name, f.Message, f.Remedy, code))
}

// oneLine shows what no name may have in it, and a file may have in a name.
func oneLine(text string) string {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}

// Check returns the findings in files, in the order of file and line.
func (s Settings) Check(files []File) []Finding {
	l := &linter{Settings: s, namespaces: map[string]map[string]string{}, asking: map[string]string{}, limits: map[string][]corev1.LimitRange{}, claimPods: map[string]int{}}
	l.Admission.Claims = &l.claims
	l.look(files)
	for _, file := range files {
		for _, o := range file.Objects {
			l.file, l.object = file.Name, o
			switch {
			case o.Pod != nil:
				l.object.Pod = l.pod(&o)
				l.checkPod()
				l.checkPodClaims()
			case o.APIVersion == "v1" && o.Kind == "Namespace":
				l.checkLabels(o.Labels, o.Line)
				l.checkNamespace()
			case o.APIVersion == "v1" && o.Kind == "LimitRange":
				l.checkLimitRange()
			case o.APIVersion == "v1" && o.Kind == "ResourceQuota":
				l.checkQuota()
			case isAutoscaler(&o):
				l.checkAutoscaler(files)
			case isQueue(&o):
				l.checkQueue()
			case claims.Reads(&o):
				l.checkClaim()
			default:
				l.checkKueueConfig()
			}
		}
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, strings.Compare(a.Message, b.Message))
	})
	return l.findings
}

// Reads reports whether Check reads an object.
func Reads(o *manifest.Object) bool {
	return o.Pod != nil || claims.Reads(o) || isAutoscaler(o) || isQueue(o) || len(kueueConfigs(o)) > 0 ||
		o.APIVersion == "v1" && slices.Contains([]string{"Namespace", "LimitRange", "ResourceQuota"}, o.Kind)
}

type linter struct {
	Settings
	// namespaces holds the annotations of the known namespaces.
	namespaces map[string]map[string]string
	// asking holds a workload type for which pods of a namespace ask, the first in the alphabet.
	asking map[string]string
	// limits are the LimitRanges of each namespace.
	limits map[string][]corev1.LimitRange
	// kueue are the Configurations of Kueue, and covered the resources of its ClusterQueues.
	kueue   []kueueConfig
	covered []string

	// claims are the objects of resource.k8s.io, and claimPods the numbers of pods that name a claim.
	claims    claims.Objects
	claimPods map[string]int

	findings []Finding
	// The present file and object.
	file   string
	object manifest.Object
}

// look records the facts about other objects that the checks of an object need.
func (l *linter) look(files []File) {
	for name, types := range l.Allowed {
		l.namespaces[name] = map[string]string{l.Admission.Names.AllowedKey(): strings.Join(types, ",")}
	}
	for _, file := range files {
		for _, o := range file.Objects {
			l.object = o
			if o.APIVersion == "v1" && o.Kind == "Namespace" {
				l.namespaces[o.Name] = o.Annotations
			}
			if o.APIVersion == "v1" && o.Kind == "LimitRange" {
				var limits corev1.LimitRange
				if o.Decode(&limits) == nil { // checkLimitRange reports an error
					l.limits[l.namespace()] = append(l.limits[l.namespace()], limits)
				}
			}
			l.lookKueue()
			l.lookClaims(&o)
			if o.Pod == nil {
				continue
			}
			if typ, asks, _ := l.Admission.Names.TargetType(o.Pod.Annotations); asks {
				if first, found := l.asking[l.namespace()]; !found || typ < first {
					l.asking[l.namespace()] = typ
				}
			}
		}
	}
}

func (l *linter) namespace() string { return cmp.Or(l.object.Namespace, l.Namespace) }

// allows returns the types that are switched on and that the object's namespace
// allows; known is false when nothing is known about it.
func (l *linter) allows() (types []string, known bool) {
	annotations, known := l.namespaces[l.namespace()]
	for typ, on := range l.Admission.Types {
		if allowed, _ := l.Admission.Names.Allowed(annotations, typ); on && allowed {
			types = append(types, typ)
		}
	}
	slices.Sort(types)
	return types, known || l.Allowed != nil
}

// read decodes the object, and reports whether it can. Otherwise it adds a finding.
func (l *linter) read(into any) bool {
	err := l.object.Decode(into)
	if err != nil {
		l.find(l.object.Line("spec"), "it cannot be read: "+err.Error(), "correct it")
	}
	return err == nil
}

func (l *linter) find(line int, message, remedy string) { l.findCode(line, message, remedy, "") }

func (l *linter) findCode(line int, message, remedy, code string) {
	f := Finding{l.file, line, l.object.Kind, l.object.Namespace, l.object.Name, message, remedy, code}
	if !slices.Contains(l.findings, f) {
		l.findings = append(l.findings, f)
	}
}

// findText adds a finding whose remedy stands behind its last semicolon, as in the
// messages of packages admission and workload.
func (l *linter) findText(line int, text string) {
	message, remedy := text, "see the message"
	if i := strings.LastIndex(text, "; "); i >= 0 {
		message, remedy = text[:i], text[i+2:]
	}
	l.find(line, message, remedy)
}
