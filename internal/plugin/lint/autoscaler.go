package lint

import (
	"cmp"
	"strings"

	"github.com/cpupoold/cpupoold/internal/autoscaling"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// isAutoscaler reports whether an object is an autoscaler of a known kind.
func isAutoscaler(o *manifest.Object) bool {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return autoscaling.Is(group, o.Kind)
}

// checkAutoscaler finds an autoscaler that needs or sets the CPU requests of pods in a management
// pool: the webhook moves these requests to another resource.
func (l *linter) checkAutoscaler(files []File) {
	var a autoscaling.Autoscaler
	if !l.read(&a) {
		return
	}
	use, uses := a.Use(l.object.Kind)
	if !uses {
		return
	}
	for _, file := range files {
		for i := range file.Objects {
			if o := &file.Objects[i]; l.isTarget(o, use.Target) && use.Concerns(o.Pod) && l.managed(o) {
				l.find(l.object.Line("spec", use.Field), use.Sentence(l.object.Kind, l.object.Name), use.Remedy)
				return
			}
		}
	}
}

// isTarget reports whether an object of a file makes the pods that the present object scales.
func (l *linter) isTarget(o *manifest.Object, to autoscaling.Target) bool {
	return o.Pod != nil && o.Kind == to.Kind && o.Name == to.Name && cmp.Or(o.Namespace, l.Namespace) == l.namespace()
}
