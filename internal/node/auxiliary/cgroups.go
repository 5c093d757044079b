package auxiliary

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// A privileged pod can make cgroups in its slice. Limits of the work and memory for them.
const (
	maxPlaced = 64   // placed cgroups of a pod
	maxKnown  = 1024 // known cgroups of a pod
)

const (
	codeMany     pools.Code = "TooManyPodCgroups"      // more than maxPlaced
	codeNoCPUSet pools.Code = "PodCgroupWithoutCPUSet" // it cannot be written
	codeLost     pools.Code = "CgroupMissing"          // a container has no cgroup
)

const mostNamed = 3

// Cgroups holds the known cgroups in the slices of pods whose names contain no container id.
// It is not safe for concurrent use. A nil Cgroups holds none.
type Cgroups struct {
	driver cgroup.Driver
	slices map[cgroup.Path]map[cgroup.Path]state
	news   map[cgroup.Path]int // new cgroups of each slice since the last NoteAll
}

// state shows whether the daemon can write a cgroup.
type state int

const (
	unread  state = iota
	usable        // it has the cpuset controller
	without       // it has no cpuset controller
)

// New returns an empty Cgroups.
func New(d cgroup.Driver) *Cgroups {
	return &Cgroups{driver: d, slices: make(map[cgroup.Path]map[cgroup.Path]state), news: make(map[cgroup.Path]int)}
}

// Note records that a cgroup has appeared (there) or disappeared. It reports whether the
// cgroup is a new one in the slice of a pod, and none of a container. A privileged pod can make
// and remove cgroups in a loop. So Note reports at most maxPlaced cgroups of a slice between two
// calls of NoteAll. The next full pass places the others.
func (c *Cgroups) Note(p cgroup.Path, there bool) bool {
	slice := p.Parent()
	in := c.slices[slice]
	if _, known := in[p]; known || !there {
		if delete(in, p); there {
			in[p] = unread // another one with the same name
		} else if len(in) == 0 {
			delete(c.slices, slice)
		}
		return false
	}
	if !IsPod(slice) || len(in) >= maxKnown || p.ContainerID(c.driver) != "" {
		return false
	}
	if in == nil {
		in = make(map[cgroup.Path]state)
		c.slices[slice] = in
	}
	in[p] = unread
	c.news[slice]++
	return c.news[slice] <= maxPlaced
}

// IsPod reports whether p is the cgroup of a pod, and not one in it.
func IsPod(p cgroup.Path) bool { return p.InPod() && !p.Parent().InPod() }

// NoteAll records the cgroups that exist, for each listing of the runtime.
func (c *Cgroups) NoteAll(all []cgroup.Path) {
	clear(c.news)
	for _, p := range all {
		c.Note(p, true)
	}
}

// in returns the auxiliary cgroups of a pod's slice, the most important first. It leaves out
// the cgroups of containers (taken), and the one of a dropped pause container, which CRI-O
// makes without a process (1.34, internal/config/cgmgr/systemd_linux.go, CreateSandboxCgroup).
func (c *Cgroups) in(slice cgroup.Path, taken map[cgroup.Path]bool, sandboxes map[string]bool) []cgroup.Path {
	all := slices.Collect(maps.Keys(c.slices[slice]))
	all = slices.DeleteFunc(all, func(p cgroup.Path) bool {
		return taken[p] || sandboxes[p.ContainerID(cgroup.DriverCgroupfs)]
	})
	slices.SortFunc(all, func(a, b cgroup.Path) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
	return all
}

// rank orders the cgroups that runtimes make before others.
func rank(p cgroup.Path) int {
	switch name := p.Base(); {
	case strings.HasPrefix(name, kataPrefix):
		return 0
	case strings.HasPrefix(name, monitorPrefix):
		return 1
	}
	return 2
}

const (
	kataPrefix    = "kata_"
	monitorPrefix = "crio-conmon-" // CRI-O 1.34, internal/config/cgmgr, MoveConmonToCgroup
)

// refresh reads a cgroup with unknown controllers, and reports whether it can get a target.
func (c *Cgroups) refresh(p cgroup.Path, read func(cgroup.Path) (cgroup.State, error)) bool {
	in := c.slices[p.Parent()]
	if in[p] == usable {
		return true
	}
	st, err := read(p)
	switch {
	case errors.Is(err, cgroup.ErrGone):
		c.Note(p, false)
	case err == nil && st.HasCPUSet:
		in[p] = usable
	case err == nil:
		in[p] = without
	}
	return in[p] == usable
}

// Problems returns the problems of the auxiliary cgroups that the last Place has not placed,
// sorted by pod, and of containers without a cgroup.
func (c *Cgroups) Problems(m *inventory.Objects) []pools.Problem {
	all := c.lostProblems(m)
	if c == nil || len(c.slices) == 0 {
		return all
	}
	b := c.look(m)
	for _, slice := range slices.Sorted(maps.Keys(c.slices)) {
		paths := c.in(slice, b.taken, b.sandboxes)
		add := func(code pools.Code, format string, a ...any) {
			p := pools.Problem{Reason: pools.Reason{Code: code, Text: fmt.Sprintf(format, a...)}}
			p.PodUID, p.Pod = b.nameOf(slice)
			all = append(all, p)
		}
		if n := len(paths); n > maxPlaced {
			add(codeMany, "%s contains %d cgroups of no container (%d at most are counted); the daemon places %d of them, and the others may run on exclusive CPUs. Remove them",
				slice, n, maxKnown, maxPlaced)
		}
		var bare []string
		for _, p := range paths[:min(len(paths), maxPlaced)] {
			if c.slices[slice][p] == without {
				bare = append(bare, p.Base())
			}
		}
		if len(bare) > 0 {
			add(codeNoCPUSet, "%s does not enable the cpuset controller for %d cgroups of no container (%s); they may run on exclusive CPUs",
				slice, len(bare), strings.Join(bare[:min(len(bare), mostNamed)], ", "))
		}
	}
	return all
}

// lostProblems skips containers of a virtual machine, which run in its sandbox's cgroup.
func (c *Cgroups) lostProblems(m *inventory.Objects) (all []pools.Problem) {
	for e, since := range m.Lost() {
		pod := e.Pod()
		if c.HasSandbox(pod) {
			continue
		}
		cpus := "its exclusive CPUs are"
		if !e.Recorded.IsEmpty() {
			cpus = fmt.Sprintf("CPUs %s are", e.Recorded)
		}
		all = append(all, pools.Problem{PodUID: pod.UID, Pod: pod.Name(), Container: e.Container.Name, Reason: pools.Reason{Code: codeLost, Text: fmt.Sprintf(
			"the runtime reports container %s as running, and its cgroup %s has not existed since %s: %s kept for it; delete the pod, or restart the runtime",
			e.Container.ID, e.Path, since.UTC().Format(time.RFC3339), cpus)}})
	}
	return all
}
