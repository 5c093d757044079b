package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Read reads the topology from the tree that is mounted on /sys. If CPUs go
// offline or come online during the scan, it starts over, a few times at most.
func Read(sys fs.FS) (*Topology, error) {
	const attempts = 3
	s := newSysfs(sys)
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
	*sysfs

	online   cpuset.Set
	places   []Place // sorted by ID
	nodes    []Node
	warnings []string
}

func (s *sysfs) scan(online cpuset.Set) (*Topology, error) {
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

// running returns the online CPUs of a set, in most cases without a copy.
func (r *scan) running(set cpuset.Set) cpuset.Set {
	if set.IsSubsetOf(r.online) {
		return set
	}
	return set.Intersection(r.online)
}

// index returns the position of an online CPU in places.
func (r *scan) index(id int) int {
	i, _ := slices.BinarySearchFunc(r.places, id, func(p Place, id int) int { return p.ID - id })
	return i
}

// masks reads the lists in the directory of online.
func (s *sysfs) masks(t *Topology) error {
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
func (s *sysfs) nohzFull() (cpuset.Set, error) {
	name := path.Join(cpuDir, "nohz_full")
	text, _, err := optional(s.text(name))
	if err != nil || strings.TrimSpace(text) == "(null)" {
		return cpuset.Set{}, err
	}
	set, _, err := optional(s.list(name))
	return set, err
}

// readCaches reads the last-level caches. If the kernel shows no cache, as in many virtual
// machines, or if the CPUs disagree about the CPUs that share it, the cache is not known.
func (r *scan) readCaches() error {
	shared := make([]cpuset.Set, len(r.places))
	listed := make([]cache, len(r.places)) // the last cache that has the CPU in its list
	for i := range r.places {
		last, err := r.lastLevel(r.places[i].ID, listed[i])
		if err != nil {
			return err
		}
		r.places[i].L3, shared[i] = -1, r.running(last.shared)
		if last.index != listed[i].index || !last.shared.Equal(listed[i].shared) {
			for id := range shared[i].All() {
				listed[r.index(id)] = last
			}
		}
	}
	for i, of := range shared {
		// Each cache is examined once, at its lowest CPU.
		if of.First() == r.places[i].ID && r.sameForAll(shared, of) {
			for id := range of.All() {
				r.places[r.index(id)].L3 = of.First()
			}
		}
	}
	return nil
}

func (r *scan) sameForAll(shared []cpuset.Set, of cpuset.Set) bool {
	for id := range of.All() {
		if !shared[r.index(id)].Equal(of) {
			return false
		}
	}
	return true
}

// cache is a cache as a CPU shows it. The zero value is no data cache.
type cache struct {
	index  string // name of its directory
	level  int
	shared cpuset.Set // CPUs that share it
}

// lastLevel returns a CPU's data cache of the highest level, which is level 2 for some small
// cores. The number in indexN is not the level. If the kernel shows no cache, lastLevel returns
// the zero value. A machine with thousands of CPUs has four directories for each. So
// lastLevel first reads one file of the likely cache, which another CPU has. It ends if both CPUs share it.
func (s *sysfs) lastLevel(id int, likely cache) (cache, error) {
	dir := cpuFile(id, "cache")
	if likely.level > 0 {
		shared, ok, err := optional(s.list(path.Join(dir, likely.index, "shared_cpu_list")))
		if err != nil || ok && shared.Equal(likely.shared) {
			return likely, err
		}
	}
	entries, _, err := optional(fs.ReadDir(s.fs, dir))
	if err != nil {
		return cache{}, fmt.Errorf("read %s: %w", dir, err)
	}
	var last cache
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "index") {
			continue
		}
		kind, ok, err := optional(s.text(path.Join(dir, entry.Name(), "type")))
		if err != nil {
			return cache{}, err
		}
		if !ok || kind != "Unified" && kind != "Data" {
			continue
		}
		c, err := s.shown(dir, entry.Name())
		if err != nil {
			return cache{}, err
		}
		if c.level > last.level {
			last = c
		}
	}
	return last, nil
}

// shown returns the zero value for a cache of which the kernel hides an attribute because it
// does not know it (drivers/base/cacheinfo.c cache_default_attrs_is_visible).
func (s *sysfs) shown(dir, index string) (cache, error) {
	level, ok, err := optional(s.number(path.Join(dir, index, "level")))
	if !ok {
		return cache{}, err
	}
	shared, ok, err := optional(s.list(path.Join(dir, index, "shared_cpu_list")))
	if !ok {
		return cache{}, err
	}
	return cache{index, level, shared}, nil
}

// localDistance is a node's distance to itself by definition (ACPI SLIT).
const localDistance = 10

// readNodes reads the NUMA nodes. If the directory is missing, the kernel does not support
// NUMA, and all CPUs are in one node.
func (r *scan) readNodes() error {
	if _, ok, err := optional(fs.Stat(r.fs, nodeDir)); err != nil {
		return fmt.Errorf("read %s: %w", nodeDir, err)
	} else if !ok {
		r.nodes = []Node{{Distances: []int{localDistance}, HasMemory: true}}
		return nil
	}
	online, err := r.list(path.Join(nodeDir, "online"))
	if err != nil {
		return err
	}
	withMemory, err := r.list(path.Join(nodeDir, "has_memory"))
	if err != nil {
		return err
	}
	var placed, repeated, repeating cpuset.Set
	for id := range online.All() {
		node := Node{ID: id, HasMemory: withMemory.Contains(id)}
		cpus, err := r.list(nodeFile(id, "cpulist"))
		if err != nil {
			return err
		}
		if node.Distances, err = r.distances(id, online.Len()); err != nil {
			return err
		}
		r.nodes = append(r.nodes, node)
		cpus = cpus.Intersection(r.online)
		if twice := cpus.Intersection(placed); !twice.IsEmpty() {
			repeated, repeating = repeated.Union(twice), repeating.Union(cpuset.Of(id))
		}
		for cpu := range cpus.Difference(placed).All() {
			r.places[r.index(cpu)].Node = id
		}
		placed = placed.Union(cpus)
	}
	if stray := r.online.Difference(placed); !stray.IsEmpty() {
		return fmt.Errorf("read %s/node*/cpulist: CPUs %s are online but in no online node", nodeDir, stray)
	}
	if !repeated.IsEmpty() {
		r.warn("CPUs %s are in several NUMA nodes: each belongs to its first node, and nodes %s have these CPUs no more. "+
			"Remove numa=fake from the kernel command line, or correct the firmware's NUMA settings", repeated, repeating)
	}
	return nil
}

// distances reads a row of the distance table. It has one column for each online
// node, in ascending order of their numbers, and no columns for offline nodes.
func (s *sysfs) distances(id, columns int) ([]int, error) {
	name := nodeFile(id, "distance")
	text, err := s.text(name)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(text)
	if len(fields) != columns {
		return nil, fmt.Errorf("read %s: %d distances for %d online nodes", name, len(fields), columns)
	}
	row := make([]int, columns)
	for i, field := range fields {
		distance, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("read %s: %q is not a distance", name, field)
		}
		row[i] = int(distance)
	}
	return row, nil
}

const (
	cpuDir  = "devices/system/cpu"
	nodeDir = "devices/system/node"
)

func cpuFile(id int, name string) string {
	return cpuDir + "/cpu" + strconv.Itoa(id) + "/" + name
}

func nodeFile(id int, name string) string {
	return nodeDir + "/node" + strconv.Itoa(id) + "/" + name
}

// sysfs reads the three shapes of file that topology comes in. Errors name the
// file; one that is missing is fs.ErrNotExist.
type sysfs struct {
	fs    fs.FS
	data  []byte                // the last file
	lists map[string]cpuset.Set // by text: all CPUs of a cache show the same list
}

func newSysfs(sys fs.FS) *sysfs { return &sysfs{fs: sys, lists: make(map[string]cpuset.Set)} }

// read returns the whole file without its line end. The result is valid until the next call.
// Lists of an interleaved machine with thousands of CPUs are longer than a page, so nothing
// shorter than limit may be assumed. The files have one line. Its end is the end of the file: a
// further read would make the kernel format the list again.
func (s *sysfs) read(name string) ([]byte, error) {
	const limit, page = 1 << 20, 4096
	f, err := s.fs.Open(name)
	if err != nil {
		return nil, err
	}
	end := []byte("\n")
	s.data = s.data[:0]
	for err == nil && len(s.data) <= limit && !bytes.HasSuffix(s.data, end) {
		s.data = slices.Grow(s.data, page)
		var n int
		n, err = f.Read(s.data[len(s.data):cap(s.data)])
		s.data = s.data[:len(s.data)+n]
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(s.data) > limit {
		return nil, fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return bytes.TrimSuffix(s.data, end), nil
}

func (s *sysfs) text(name string) (string, error) {
	data, err := s.read(name)
	return string(data), err
}

// list reads a list of CPUs or of nodes.
func (s *sysfs) list(name string) (cpuset.Set, error) {
	data, err := s.read(name)
	if err != nil {
		return cpuset.Set{}, err
	}
	if set, ok := s.lists[string(data)]; ok {
		return set, nil
	}
	text := string(data)
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read %s: %w", name, err)
	}
	s.lists[text] = set
	return set, nil
}

func (s *sysfs) number(name string) (int, error) {
	text, err := s.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read %s: %q is not a number", name, text)
	}
	return int(n), nil
}

// optional turns a missing file into ok == false, for data that only some kernels
// and machines have.
func optional[T any](value T, err error) (v T, ok bool, _ error) {
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	return value, err == nil, err
}
