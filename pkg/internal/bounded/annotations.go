// Package bounded selects annotations of pods, and bounds their memory. A pod chooses names and
// values of its annotations, up to 256 KiB (apimachinery, TotalAnnotationSizeLimitB). The
// package has no state.
package bounded

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

const (
	// maxValue is the maximum length of a kept value, in bytes, without the end mark. The longest
	// valid value has 1,024 bytes (pkg/workload, maxValue).
	maxValue = 1 << 10
	// maxPod is the maximum length of all kept names and values of a pod, in bytes. A pod with 50
	// containers and six annotations of 100 bytes for each needs 30,000.
	maxPod  = 32 << 10
	endMark = "..." // at the end of a cut value. No valid value has this end
	// tooMany replaces each value of a pod that exceeds maxPod. No annotation has it as a valid
	// value, so that the daemon reports the annotations.
	tooMany = "too many annotations ..."
)

// Annotations returns the annotations whose names keep reports. It cuts values to maxValue
// bytes. If names and values exceed maxPod bytes, all values are invalid, and the longest names
// are missing. Annotations that were returned stay the same in another call.
func Annotations(all map[string]string, keep func(name string) bool) map[string]string {
	var kept map[string]string
	size := 0
	for name, value := range all {
		if !keep(name) {
			continue
		}
		if kept == nil {
			kept = make(map[string]string)
		}
		value = cut(value)
		kept[name] = value
		size += len(name) + len(value)
	}
	if size <= maxPod {
		return kept
	}
	size = 0
	// In this order, so that CRI and NRI keep the same names.
	for _, name := range slices.SortedFunc(maps.Keys(kept), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }) {
		if size += len(name) + len(tooMany); size > maxPod {
			delete(kept, name)
		} else {
			kept[name] = tooMany
		}
	}
	return kept
}

// cut returns a value of at most maxValue bytes and the length of the end mark. It cuts no character in two,
// because protobuf refuses invalid UTF-8.
func cut(value string) string {
	if len(value) <= maxValue+len(endMark) { // possibly cut before
		return value
	}
	return strings.ToValidUTF8(value[:maxValue], "") + endMark
}
