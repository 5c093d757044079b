package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Bounds of what an answer about a name lists.
const (
	maxNames = 20
	minID    = 8 // letters of a container ID that are enough to name it
)

// Find returns the indices of those that a name names: all containers of a pod (name,
// namespace/name or UID), a container of it (with /container behind any of these, or by
// its ID or the first 8 letters of that), or a unit. A container can be there twice, while
// an older instance is ending. The error is a [*inspect.NameError] when the name
// names nothing, or several pods, containers and units; it lists what there is.
func Find(all []inspect.Container, name string) ([]int, error) {
	var found []int
	var targets []string
	for i := range all {
		t := target(&all[i], name)
		if t == "" {
			continue
		}
		found = append(found, i)
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	switch {
	case len(targets) == 1:
		return found, nil
	case len(targets) > 1:
		return nil, &inspect.NameError{Text: fmt.Sprintf("%q names several: %s; write one of these", name, list(targets))}
	}
	return nil, &inspect.NameError{Text: fmt.Sprintf("%q names no pod, container or unit that the daemon places; %s", name, known(all, name))}
}

// target is what of c a name names, in full: its pod, itself, or nothing.
func target(c *inspect.Container, name string) string {
	if c.Unit {
		if c.Name == name {
			return c.Name
		}
		return ""
	}
	if ofPod(c, name) {
		return fmt.Sprintf("%s/%s (UID %s)", c.Namespace, c.Pod, c.PodUID)
	}
	i := strings.LastIndexByte(name, '/')
	if i > 0 && c.Name == name[i+1:] && ofPod(c, name[:i]) || len(name) >= minID && strings.HasPrefix(c.ID, name) {
		return fmt.Sprintf("%s (UID %s)", c.Full(), c.PodUID)
	}
	return ""
}

// ofPod says that a name names the pod of c.
func ofPod(c *inspect.Container, name string) bool {
	return name != "" && (name == c.Pod || name == c.PodUID || name == c.Namespace+"/"+c.Pod)
}

// known lists the pods and units that there are, those first that look like the name.
func known(all []inspect.Container, name string) string {
	_, last, _ := strings.Cut(name, "/")
	var like, others []string
	for i := range all {
		what := all[i].Name
		if !all[i].Unit {
			what = all[i].Namespace + "/" + all[i].Pod
		}
		to := &others
		if name != "" && strings.Contains(what, name) || last != "" && strings.Contains(what, last) {
			to = &like
		}
		if !slices.Contains(*to, what) {
			*to = append(*to, what)
		}
	}
	if len(like)+len(others) == 0 {
		return "there is none on this node"
	}
	slices.Sort(like)
	slices.Sort(others)
	return "there are " + list(slices.Concat(like, others))
}

// list lists the first of some names.
func list(names []string) string {
	text := strings.Join(names[:min(len(names), maxNames)], ", ")
	if more := len(names) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
