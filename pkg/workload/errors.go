package workload

import (
	"fmt"
	"strconv"
)

// badAnnotation names the annotation, its value, what is wrong and what to do.
// Name and value come from a stranger and are cut to a length that fits a log
// line and an event.
func badAnnotation(key, value, problem, remedy string) error {
	return fmt.Errorf("annotation %s: value %s: %s; %s", clip(key), quote(value), problem, remedy)
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
