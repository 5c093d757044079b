package simulate

import (
	"encoding/xml"
	"errors"
	"fmt"
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

// ParseLstopo makes the machine of an XML file of lstopo, from hwloc 2.0 on. CPUs that
// the file has no PU of are offline: as lstopo writes it by default, also those that it
// was not allowed to use.
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
	if err := w.walk(machine, topology.Place{Core: -1, L3: -1, Die: -1, Package: -1}, false, 0); err != nil {
		return nil, err
	}
	if len(w.nodes) == 0 {
		w.nodes, w.nodeCPUs = []topology.Node{{HasMemory: true}}, []cpuset.Set{w.online}
	}
	for i := range w.places {
		node := -1
		for j, cpus := range w.nodeCPUs {
			if cpus.Contains(w.places[i].ID) {
				node = w.nodes[j].ID
				break
			}
		}
		if w.places[i].Node = node; node < 0 {
			return nil, fmt.Errorf("PU %d is in no NUMA node", w.places[i].ID)
		}
	}
	if !slices.ContainsFunc(w.nodes, func(n topology.Node) bool { return n.HasMemory }) { // as of a synthetic machine
		for i := range w.nodes {
			w.nodes[i].HasMemory = true
		}
	}
	if err := file.kinds(w.places); err != nil {
		return nil, err
	}
	file.measure(w.nodes)
	t, err := topology.Assemble(w.places, w.nodes)
	if err != nil {
		return nil, err
	}
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

// lstopoWalk collects what is found on the way through the objects.
type lstopoWalk struct {
	places   []topology.Place
	online   cpuset.Set
	nodes    []topology.Node
	nodeCPUs []cpuset.Set
	cores    int // so far, which number them: those of the file are unique in their package at most
	caches   int
}

// deepest bounds how deep objects nest; machines do so a dozen times.
const deepest = 64

// walk goes through an object and those in it. Cached says that it is in a cache.
func (w *lstopoWalk) walk(o *lstopoObject, at topology.Place, cached bool, deep int) error {
	if deep > deepest {
		return fmt.Errorf("objects nest more than %d times", deepest)
	}
	number := func() (int, error) {
		n, err := strconv.Atoi(o.OSIndex)
		if err != nil || n < 0 || n >= cpuset.MaxCPUs {
			return 0, fmt.Errorf("%s with os_index %q; want 0-%d", o.Type, o.OSIndex, cpuset.MaxCPUs-1)
		}
		return n, nil
	}
	var err error
	switch o.Type {
	case "Package":
		if at.Package, err = number(); err != nil {
			return err
		}
	case "Die":
		if at.Die, err = number(); err != nil {
			return err
		}
	case "L2Cache", "L3Cache", "L4Cache", "L5Cache":
		// Of caches around each other the outermost counts: the last level.
		if !cached {
			cached, at.L3 = true, w.caches
			w.caches++
		}
	case "Core":
		at.Core = w.cores
		w.cores++
	case "NUMANode":
		return w.node(o, number)
	case "PU":
		if at.ID, err = number(); err != nil {
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
		if err := w.walk(&o.Objects[i], at, cached, deep+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *lstopoWalk) node(o *lstopoObject, number func() (int, error)) error {
	id, err := number()
	if err != nil {
		return err
	}
	cpus, err := lstopoSet(o.CPUs)
	if err != nil {
		return fmt.Errorf("NUMANode %d: %w", id, err)
	}
	w.nodes = append(w.nodes, topology.Node{ID: id, HasMemory: o.Memory != "" && o.Memory != "0"})
	w.nodeCPUs = append(w.nodeCPUs, cpus)
	return nil
}

// lstopoSet reads a mask of hwloc's: groups of 32 bits in hexadecimal, the highest
// first; one without digits is 0.
func lstopoSet(text string) (cpuset.Set, error) {
	groups := strings.Split(text, ",")
	for i, g := range groups {
		if g = strings.TrimPrefix(g, "0x"); g == "" {
			g = "0"
		}
		groups[i] = g
	}
	return cpuset.ParseMask(strings.Join(groups, ","), cpuset.MaxCPUs)
}

// measure enters distances. Without any in the file, or without sense, other nodes are
// all as far.
func (file *lstopo) measure(nodes []topology.Node) {
	for i := range nodes {
		nodes[i].Distances = make([]int, len(nodes))
	}
	order := make(map[int]int, len(nodes)) // node by ID, in the order that Assemble will bring them into
	for i := range nodes {
		rank := 0
		for j := range nodes {
			if nodes[j].ID < nodes[i].ID {
				rank++
			}
		}
		order[nodes[i].ID] = rank
	}
	far := make(map[[2]int]int)
	for _, d := range file.Distances {
		if d.Type == "NUMANode" && d.Indexing == "os" && (d.Name == "NUMALatency" || d.Name == "") {
			far = d.table()
			break
		}
	}
	for i := range nodes {
		for j := range nodes {
			distance, ok := far[[2]int{nodes[i].ID, nodes[j].ID}]
			if !ok {
				if distance = distanceFar; i == j {
					distance = distanceHere
				}
			}
			nodes[i].Distances[order[nodes[j].ID]] = distance
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
	for _, text := range texts {
		for field := range strings.FieldsSeq(text) {
			n, err := strconv.ParseUint(field, 10, 31)
			if err != nil {
				return nil, false
			}
			all = append(all, int(n))
		}
	}
	return all, true
}

// kinds enters the kinds of cores of a hybrid machine, as far as the file tells them.
func (file *lstopo) kinds(places []topology.Place) error {
	for _, k := range file.Kinds {
		kind := topology.Unknown
		for _, info := range k.Info {
			switch {
			case info.Name != "CoreType":
			case info.Value == "IntelCore":
				kind = topology.Performance
			case info.Value == "IntelAtom":
				kind = topology.Efficiency
			}
		}
		cpus, err := lstopoSet(k.CPUs)
		if err != nil {
			return fmt.Errorf("cpukind: %w", err)
		}
		for i := range places {
			if cpus.Contains(places[i].ID) {
				places[i].Kind = kind
			}
		}
	}
	return nil
}
