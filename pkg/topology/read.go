package topology

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Read reads the topology from the tree that is mounted on /sys. If CPUs go
// offline or come online during the scan, it starts over, a few times at most.
func Read(sys fs.FS) (*Topology, error) {
	const attempts = 3
	s := sysfs{sys}
	online, err := s.list(path.Join(cpuDir, "online"))
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	for range attempts {
		t, scanErr := s.scan(online)
		// The files of a CPU are removed with it, so an error may only mean
		// that online was out of date.
		now, err := s.list(path.Join(cpuDir, "online"))
		if err != nil {
			return nil, fmt.Errorf("read topology: %w", err)
		}
		if now.Equal(online) {
			if scanErr != nil {
				return nil, fmt.Errorf("read topology: %w", scanErr)
			}
			return t, nil
		}
		online = now
	}
	return nil, fmt.Errorf("read topology: online CPUs changed during each of %d attempts, now %s", attempts, online)
}

// scan is one reading of the tree.
type scan struct {
	sysfs

	online   cpuset.Set
	places   []Place // sorted by ID
	nodes    []Node
	warnings []string
}

func (s sysfs) scan(online cpuset.Set) (*Topology, error) {
	if online.IsEmpty() {
		return nil, fmt.Errorf("%s/online: no CPU is online", cpuDir)
	}
	r := &scan{sysfs: s, online: online, places: make([]Place, 0, online.Len())}
	for id := range online.All() {
		r.places = append(r.places, Place{ID: id})
	}
	for _, step := range []func() error{r.readCores, r.readPackages, r.readNodes, r.readCaches, r.readCapacities} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	t, err := Assemble(r.places, r.nodes)
	if err != nil {
		return nil, err
	}
	t.Warnings = append(r.warnings, t.Warnings...)
	if err := s.kinds(t); err != nil {
		return nil, err
	}
	return t, s.masks(t)
}

func (r *scan) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

// index returns the position of an online CPU in places.
func (r *scan) index(id int) int {
	i, _ := slices.BinarySearchFunc(r.places, id, func(p Place, id int) int { return p.ID - id })
	return i
}

// masks reads the lists in the directory of online.
func (s sysfs) masks(t *Topology) error {
	var err error
	if t.Possible, err = s.list(path.Join(cpuDir, "possible")); err != nil {
		return err
	}
	if t.Present, err = s.list(path.Join(cpuDir, "present")); err != nil {
		return err
	}
	if t.Isolated, _, err = optional(s.list(path.Join(cpuDir, "isolated"))); err != nil {
		return err
	}
	t.NohzFull, err = s.nohzFull()
	return err
}

// nohzFull reads nohz_full. A kernel up to 6.18 without nohz_full= on its command line
// prints a null pointer, padded to as many characters as it has CPUs.
func (s sysfs) nohzFull() (cpuset.Set, error) {
	name := path.Join(cpuDir, "nohz_full")
	text, _, err := optional(s.text(name))
	if err != nil || strings.TrimSpace(text) == "(null)" {
		return cpuset.Set{}, err
	}
	set, _, err := optional(s.list(name))
	return set, err
}
