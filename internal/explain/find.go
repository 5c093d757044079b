package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Bounds of the names in an answer.
const (
	maxNames = 8
	minID    = 8 // shortest accepted prefix of a container ID
)

// Find returns the indices of the containers with a name. These are
//
//   - all containers of a pod, by name, namespace/name or UID;
//   - a container, by one of these names and /container, or by the first 8 letters of its ID;
//   - a unit.
//
// A container can occur twice while an older instance is ending. Find returns a
// [*inspect.NameError] with possible names if the name matches nothing, or several things.
func Find(all []inspect.Container, name string) ([]int, error) {
	var found []int
	var targets []string
	for i := range all {
		t := matchedName(&all[i], name)
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
		slices.Sort(targets)
		return nil, &inspect.NameError{Text: fmt.Sprintf("%q names several: %s; write one of these", name, list(targets))}
	}
	return nil, &inspect.NameError{Text: fmt.Sprintf("%q names no pod, container or unit that the daemon places; %s", name, suggestions(all, name))}
}

// matchedName returns the full name of the object that name matches: the pod of c, c, or nothing.
func matchedName(c *inspect.Container, name string) string {
	if c.Unit {
		if c.Name == name {
			return c.Name
		}
		return ""
	}
	if isPodName(c, name) {
		return fmt.Sprintf("%s/%s (UID %s)", c.Namespace, c.Pod, c.PodUID)
	}
	i := strings.LastIndexByte(name, '/')
	if i > 0 && c.Name == name[i+1:] && isPodName(c, name[:i]) || len(name) >= minID && strings.HasPrefix(c.ID, name) {
		return fmt.Sprintf("%s (UID %s)", c.Full(), c.PodUID)
	}
	return ""
}

// isPodName reports whether name is a name of the pod of c.
func isPodName(c *inspect.Container, name string) bool {
	return name != "" && (name == c.Pod || name == c.PodUID || name == c.Namespace+"/"+c.Pod)
}
