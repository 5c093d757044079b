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
			o := &file.Objects[i]
			isTarget := o.Pod != nil && o.Kind == use.Target.Kind && o.Name == use.Target.Name && cmp.Or(o.Namespace, l.Namespace) == l.namespace()
			if isTarget && use.Concerns(o.Pod) && l.managed(o) {
				l.find(l.object.Line("spec", use.Field), use.Sentence(l.object.Kind, l.object.Name), use.Remedy)
				return
			}
		}
	}
}
