package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/spelling"
)

// suggestions returns a text with names for an unknown name. If the name has a pod, these are the
// containers of the pod. Otherwise they are similar names of pods and units, or, without similar
// names, the first ones in the alphabet.
func suggestions(all []inspect.Container, name string) string {
	if of, containers := containersOf(all, name); len(containers) > 0 {
		return "the containers of " + of + " are " + layout.Few(containers, maxNames)
	}
	names := podsAndUnits(all)
	similar := mostSimilar(names, name)
	switch others := len(names) - len(similar); {
	case len(names) == 0:
		return "this node has no pods and no units"
	case len(similar) == 0:
		return "there are " + layout.Few(names, maxNames) + "; cpupoold status lists all"
	case others == 0:
		return "similar names are " + layout.Few(similar, maxNames)
	default:
		return fmt.Sprintf("similar names are %s; cpupoold status lists %d more", layout.Few(similar, maxNames), others)
	}
}

// containersOf returns the pods that name names before its last slash, and the sorted names of
// their containers.
func containersOf(all []inspect.Container, name string) (pod string, containers []string) {
	i := strings.LastIndexByte(name, '/')
	if i <= 0 {
		return "", nil
	}
	for j := range all {
		if c := &all[j]; !c.Unit && isPodName(c, name[:i]) && !slices.Contains(containers, c.Name) {
			containers = append(containers, c.Name)
		}
	}
	slices.Sort(containers)
	return name[:i], containers
}

func podsAndUnits(all []inspect.Container) []string {
	var names []string
	for i := range all {
		if all[i].Unit {
			names = append(names, all[i].Name)
		} else {
			names = append(names, all[i].Namespace+"/"+all[i].Pod)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mostSimilar returns at most maxNames of names that are similar to name, the most similar first.
func mostSimilar(names []string, name string) []string {
	distances := make(map[string]int)
	var similar []string
	for _, n := range names {
		if d, is := difference(n, name); is {
			distances[n] = d
			similar = append(similar, n)
		}
	}
	slices.SortStableFunc(similar, func(a, b string) int { return cmp.Compare(distances[a], distances[b]) })
	return similar[:min(len(similar), maxNames)]
}

// difference compares a pod or unit with a requested name, or a part of it. It returns 0 if one
// contains the other, or else the number of changed letters. It reports whether they are similar:
// at most a third of the letters differ.
func difference(have, asked string) (letters int, similar bool) {
	_, pod, _ := strings.Cut(have, "/")
	_, askedPod, _ := strings.Cut(asked, "/")
	letters = -1
	for _, h := range []string{have, pod} {
		for _, a := range []string{asked, askedPod} {
			if h == "" || a == "" {
				continue
			}
			if strings.Contains(h, a) || strings.Contains(a, h) {
				return 0, true
			}
			limit := max(len(h), len(a)) / 3
			if max(len(h)-len(a), len(a)-len(h)) > limit {
				continue // at least so many letters differ
			}
			if d := spelling.Distance(h, a, limit+1); d <= limit && (letters < 0 || d < letters) {
				letters = d
			}
		}
	}
	return letters, letters >= 0
}

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
		found, targets = append(found, i), append(targets, t)
	}
	slices.Sort(targets)
	targets = slices.Compact(targets)
	switch {
	case len(targets) == 1:
		return found, nil
	case len(targets) > 1:
		return nil, &inspect.NameError{Text: fmt.Sprintf("%q names several: %s; write one of these", name, layout.Few(targets, maxNames))}
	}
	return nil, &inspect.NameError{Text: fmt.Sprintf("%q names no pod, container or unit that the daemon places; %s", name, suggestions(all, name))}
}

// FindClaim returns the ResourceClaim with a name: namespace/name or UID. It is nil without such a claim.
func FindClaim(all []inspect.Claim, name string) *inspect.Claim {
	for i := range all {
		if c := &all[i]; name != "" && (c.UID == name || c.Full() == name) {
			return c
		}
	}
	return nil
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

func isPodName(c *inspect.Container, name string) bool {
	return name != "" && (name == c.Pod || name == c.PodUID || name == c.Namespace+"/"+c.Pod)
}
