package workload

import (
	"fmt"
	"strconv"
)

// AnnotationError is an annotation that does not count as it stands.
type AnnotationError struct {
	Key, Value string
	// Problem is the reason, and Remedy the correction.
	Problem, Remedy string
}

// Error returns one line with all fields. Name and value can have any length, and are cut so
// that they fit a log line and an event.
func (e *AnnotationError) Error() string {
	return fmt.Sprintf("annotation %s: value %s: %s; %s", clip(e.Key), quote(e.Value), e.Problem, e.Remedy)
}

// quote makes s printable on one line.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "... (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// clip leaves an annotation name as it is when it is one that the API server
// accepts, and makes everything else printable.
func clip(key string) string {
	const limit = 253 + len("/") + 63
	if len(key) > limit {
		return quote(key)
	}
	for _, r := range key {
		if r <= ' ' || r > '~' || r == '"' {
			return quote(key)
		}
	}
	return key
}
