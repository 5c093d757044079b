package simulate

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// lstopo is what lstopo --of xml writes (hwloc2.dtd), as far as it is about CPUs.
type lstopo struct {
	XMLName   xml.Name         `xml:"topology"`
	Version   string           `xml:"version,attr"`
	Objects   []lstopoObject   `xml:"object"`
	Distances []lstopoDistance `xml:"distances2"`
	Kinds     []lstopoKind     `xml:"cpukind"`
}

type lstopoObject struct {
	Type     string         `xml:"type,attr"`
	OSIndex  string         `xml:"os_index,attr"`
	CPUs     string         `xml:"cpuset,attr"`
	Complete string         `xml:"complete_cpuset,attr"`
	Memory   string         `xml:"local_memory,attr"`
	Objects  []lstopoObject `xml:"object"`
}

type lstopoDistance struct {
	Type     string   `xml:"type,attr"`
	Name     string   `xml:"name,attr"`
	Indexing string   `xml:"indexing,attr"`
	Indexes  []string `xml:"indexes"`
	Values   []string `xml:"u64values"`
}

type lstopoKind struct {
	CPUs string `xml:"cpuset,attr"`
	Info []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	} `xml:"info"`
}

// ParseLstopo makes the machine of an XML file of lstopo, from hwloc 2.0 on. CPUs
// without a PU in the file are offline. By default, lstopo also omits CPUs that it was not
// allowed to use.
func ParseLstopo(data []byte) (*topology.Topology, error) {
	var file lstopo
	if err := xml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("lstopo XML: %w", err)
	}
	if major, _, _ := strings.Cut(file.Version, "."); len(major) != 1 || major < "2" {
		return nil, fmt.Errorf("lstopo XML: version %q; want that of hwloc 2.0 or later, which writes version=\"2.0\": lstopo --of xml", file.Version)
	}
	if len(file.Objects) != 1 || file.Objects[0].Type != "Machine" {
		return nil, errors.New("lstopo XML: no single object of type Machine at the top; write the whole machine")
	}
	t, err := file.machine()
	if err != nil {
		return nil, fmt.Errorf("lstopo XML: %w", err)
	}
	return t, nil
}

func (file *lstopo) machine() (*topology.Topology, error) {
	w := &lstopoWalk{}
	machine := &file.Objects[0]
	if err := w.walk(machine, lstopoAt{Place: topology.Place{Core: -1, L3: -1, Die: -1, Package: -1}}, 0); err != nil {
		return nil, err
	}
	warnings := w.placeInNodes()
	if !slices.ContainsFunc(w.places, func(p lstopoAt) bool { return p.Package >= 0 }) {
		for i := range w.places {
			w.places[i].Package = max(-1, -2-w.places[i].Package) // all without a number: from 0
		}
	}
	if !slices.ContainsFunc(w.nodes, func(n topology.Node) bool { return n.HasMemory }) { // as of a synthetic machine
		for i := range w.nodes {
			w.nodes[i].HasMemory = true
		}
	}
	places := make([]topology.Place, len(w.places))
	for i, p := range w.places {
		places[i] = p.Place
	}
	if err := file.kinds(places); err != nil {
		return nil, err
	}
	slices.SortFunc(w.nodes, func(a, b topology.Node) int { return cmp.Compare(a.ID, b.ID) }) // the order of distances in Assemble
	file.measure(w.nodes)
	t, err := topology.Assemble(places, w.nodes)
	if err != nil {
		return nil, err
	}
	t.Warnings = append(warnings, t.Warnings...)
	if machine.Complete != "" {
		all, err := lstopoSet(machine.Complete)
		if err != nil {
			return nil, err
		}
		t.Present = t.Online.Union(all)
		t.Possible = t.Present
	}
	return t, nil
}

// lstopoWalk collects the CPUs and the NUMA nodes of the objects.
type lstopoWalk struct {
	places   []lstopoAt
	online   cpuset.Set
	nodes    []topology.Node
	levels   []lstopoLevel // of nodes
	cores    int           // so far; they number the cores, because the numbers of the file are unique in a package at most
	caches   int
	packages int // packages without a number so far
	groups   int // packages and groups so far
}

// lstopoAt is the place of an object.
type lstopoAt struct {
	topology.Place

	cached bool // in a cache
	group  int  // the number of the package or group around it, 0 without one
}

// lstopoLevel holds the CPUs of a NUMA node, and the number of objects around the node.
type lstopoLevel struct {
	cpus cpuset.Set
	deep int
}

// deepest bounds the nesting of objects. Real machines nest about a dozen objects.
const deepest = 64

// walk reads an object and the objects in it. The numbers of packages have no bound: Arm's
// firmware derives them from addresses. Files of POWER, s390x and RISC-V have no number.
func (w *lstopoWalk) walk(o *lstopoObject, at lstopoAt, deep int) error {
	if deep > deepest {
		return fmt.Errorf("objects nest more than %d times", deepest)
	}
	var err error
	switch o.Type {
	case "Package":
		w.groups++
		at.group = w.groups
		if o.OSIndex == "" {
			w.packages++
			at.Package = -1 - w.packages // no number of the file is negative
		} else if at.Package, err = o.number(math.MaxInt32); err != nil {
			return err
		}
	case "Die":
		if o.OSIndex == "" {
			break
		}
		if at.Die, err = o.number(math.MaxInt32); err != nil {
			return err
		}
	case "Group":
		w.groups++
		at.group = w.groups
	case "L2Cache", "L3Cache", "L4Cache", "L5Cache":
		// Of nested caches, the outermost is the last level.
		if !at.cached {
			at.cached, at.L3 = true, w.caches
			w.caches++
		}
	case "Core":
		at.Core = w.cores
		w.cores++
	case "NUMANode":
		return w.node(o, deep)
	case "PU":
		if at.ID, err = o.number(cpuset.MaxCPUs - 1); err != nil {
			return err
		}
		if at.Core < 0 { // as in some virtual machines
			at.Core = w.cores
			w.cores++
		}
		w.places = append(w.places, at)
		w.online = w.online.Union(cpuset.Of(at.ID))
	}
	for i := range o.Objects {
		if err := w.walk(&o.Objects[i], at, deep+1); err != nil {
			return err
		}
	}
	return nil
}

// number returns the kernel's number of an object.
func (o *lstopoObject) number(most int) (int, error) {
	n, err := strconv.Atoi(o.OSIndex)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s with os_index %q; want 0-%d", o.Type, o.OSIndex, most)
	}
	return n, nil
}

func (w *lstopoWalk) node(o *lstopoObject, deep int) error {
	id, err := o.number(cpuset.MaxCPUs - 1)
	if err != nil {
		return err
	}
	cpus, err := lstopoSet(o.CPUs)
	if err != nil {
		return fmt.Errorf("NUMANode %d: %w", id, err)
	}
	w.nodes = append(w.nodes, topology.Node{ID: id, HasMemory: o.Memory != "" && o.Memory != "0"})
	w.levels = append(w.levels, lstopoLevel{cpus, deep})
	return nil
}

// placeInNodes sets the node of each CPU: the deepest node that contains the CPU, the first of
// equally deep ones. Nodes around a deeper node have memory only, as HBM or CXL. CPUs in no
// node belong to a node without memory, one for each package or group.
func (w *lstopoWalk) placeInNodes() (warnings []string) {
	if len(w.nodes) == 0 {
		w.nodes, w.levels = []topology.Node{{HasMemory: true}}, []lstopoLevel{{cpus: w.online}}
	}
	var twice cpuset.Set
	without := make(map[int]int) // nodes without memory, by group
	for i := range w.places {
		p, best := &w.places[i], -1
		for j, l := range w.levels {
			switch {
			case !l.cpus.Contains(p.ID):
			case best < 0 || l.deep > w.levels[best].deep:
				best = j
			case l.deep == w.levels[best].deep:
				twice = twice.Union(cpuset.Of(p.ID))
			}
		}
		if best >= 0 {
			p.Node = w.nodes[best].ID
			continue
		}
		id, known := without[p.group]
		if !known {
			for slices.ContainsFunc(w.nodes, func(n topology.Node) bool { return n.ID == id }) {
				id++
			}
			without[p.group] = id
			w.nodes, w.levels = append(w.nodes, topology.Node{ID: id}), append(w.levels, lstopoLevel{})
		}
		p.Node = id
	}
	if !twice.IsEmpty() {
		warnings = append(warnings, fmt.Sprintf("CPUs %s are in several NUMA nodes: each belongs to its first node", twice))
	}
	return warnings
}

// lstopoSet reads a mask of hwloc's: groups of 32 bits in hexadecimal, the highest
// first; one without digits is 0.
func lstopoSet(text string) (cpuset.Set, error) {
	groups := strings.Split(text, ",")
	for i, g := range groups {
		groups[i] = cmp.Or(strings.TrimPrefix(g, "0x"), "0")
	}
	return cpuset.ParseMask(strings.Join(groups, ","), cpuset.MaxCPUs)
}

// measure enters distances. Without any in the file, or without sense, other nodes are
// all as far.
func (file *lstopo) measure(nodes []topology.Node) {
	far := make(map[[2]int]int)
	for _, d := range file.Distances {
		if d.Type == "NUMANode" && d.Indexing == "os" && (d.Name == "NUMALatency" || d.Name == "") {
			far = d.table()
			break
		}
	}
	for i := range nodes {
		nodes[i].Distances = make([]int, len(nodes))
		for j := range nodes {
			distance, ok := far[[2]int{nodes[i].ID, nodes[j].ID}]
			if !ok {
				if distance = distanceFar; i == j {
					distance = distanceHere
				}
			}
			nodes[i].Distances[j] = distance
		}
	}
}

// table are distances by the IDs of nodes; empty if they are not a square.
func (d *lstopoDistance) table() map[[2]int]int {
	indexes, ok1 := numbers(d.Indexes)
	values, ok2 := numbers(d.Values)
	far := make(map[[2]int]int)
	if !ok1 || !ok2 || len(values) != len(indexes)*len(indexes) {
		return far
	}
	for i, from := range indexes {
		for j, to := range indexes {
			far[[2]int{from, to}] = values[i*len(indexes)+j]
		}
	}
	return far
}

func numbers(texts []string) (all []int, ok bool) {
	for field := range strings.FieldsSeq(strings.Join(texts, " ")) {
		n, err := strconv.ParseUint(field, 10, 31)
		if err != nil {
			return nil, false
		}
		all = append(all, int(n))
	}
	return all, true
}

// kinds sets the kinds and the capacities of the cores of a hybrid machine, as far as the file
// contains them.
func (file *lstopo) kinds(places []topology.Place) error {
	for _, k := range file.Kinds {
		kind, capacity := topology.Unknown, 0
		for _, info := range k.Info {
			switch {
			case info.Name == "CoreType" && info.Value == "IntelCore":
				kind = topology.Performance
			case info.Name == "CoreType" && info.Value == "IntelAtom":
				kind = topology.Efficiency
			case info.Name == "LinuxCapacity":
				n, err := strconv.ParseUint(info.Value, 10, 31)
				if err != nil {
					return fmt.Errorf("cpukind: LinuxCapacity %q is not a number", info.Value)
				}
				capacity = int(n)
			}
		}
		cpus, err := lstopoSet(k.CPUs)
		if err != nil {
			return fmt.Errorf("cpukind: %w", err)
		}
		for i := range places {
			if cpus.Contains(places[i].ID) {
				places[i].Kind, places[i].Capacity = kind, capacity
			}
		}
	}
	return nil
}
