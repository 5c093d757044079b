package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/layout"
)

// EventLine returns an event as one line of text.
func EventLine(e *history.Event) string {
	parts := []string{e.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-8s", e.Kind)}
	parts = append(parts, aboutEvent(e)...)
	parts = append(parts, whatOf(e)...)
	if e.Cause != "" || e.Code != "" {
		parts = append(parts, "#", e.Cause)
		if e.Code != "" {
			parts = append(parts, "("+e.Code+")")
		}
	}
	if e.Error != "" {
		parts = append(parts, "! "+e.Error)
	}
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, layout.Printable(p))
		}
	}
	return strings.Join(kept, " ")
}

// aboutEvent returns the name of the object of an event. It is the cgroup if there is no other.
func aboutEvent(e *history.Event) []string {
	name := e.Pod
	name = cmp.Or(name, e.PodUID)
	if e.Container != "" {
		name += "/" + e.Container
	}
	switch {
	case e.Unit != "":
		name = e.Unit
	case name == "":
		name = e.Cgroup
	}
	return []string{name}
}

// whatOf returns the new value, and the old one if there is one.
func whatOf(e *history.Event) []string {
	change := e.Value
	if e.Before != "" && e.Before != e.Value {
		change = e.Before + " → " + e.Value
	}
	switch {
	case e.Property != "" && e.Via != "":
		return []string{e.Via, e.Property + "=" + e.Value}
	case e.Property != "":
		return []string{e.Property, change}
	}
	return []string{e.Pool, change}
}
