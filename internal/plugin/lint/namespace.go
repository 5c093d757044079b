package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// checkNamespace finds a misspelt annotation of a namespace, and misspelt workload types in it.
func (l *linter) checkNamespace() {
	allowed := l.Admission.Names.AllowedKey()
	types := slices.Sorted(maps.Keys(l.Admission.Types))
	for typ := range strings.SplitSeq(l.object.Annotations[allowed], ",") {
		if meant := spelling.Near(typ, types); meant != "" {
			l.find(l.object.Line("metadata", "annotations", allowed),
				fmt.Sprintf("annotation %s of a namespace allows the unknown workload type %q (did you mean %s?)", allowed, typ, meant), "write "+meant)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.object.Annotations)) {
		if spelling.Near(key, []string{allowed}) != "" {
			l.find(l.object.Line("metadata", "annotations", key),
				fmt.Sprintf("annotation %s of a namespace has no effect (did you mean %s?)", key, allowed), "write "+allowed)
		}
	}
}
