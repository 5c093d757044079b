package simulate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

type level struct {
	letter byte
	count  int
}

// IsDescription reports whether a text has the form of a description: counts, each
// followed by one letter. A file name has a dot or another form.
func IsDescription(text string) bool {
	return regexp.MustCompile(`^([0-9]+[a-z])+$`).MatchString(text)
}

// Describe returns the machine of a description such as 2s8c2t. Letters are s sockets; n
// NUMA nodes, d dies and l last-level caches in any order; c cores; t threads. Each count
// is per unit of the previous level; a missing count is 1. CPUs are numbered as on most
// x86 servers: first one thread of each core, core by core, then the other threads.
func Describe(text string) (*topology.Topology, error) {
	levels, err := parseLevels(text)
	if err != nil {
		return nil, fmt.Errorf("topology %q: %w", text, err)
	}
	cores, threads := 1, 1
	for _, l := range levels {
		if l.letter == 't' {
			threads = l.count
		} else {
			cores *= l.count
		}
		if cores*threads > cpuset.MaxCPUs {
			return nil, fmt.Errorf("topology %q: more than %d CPUs", text, cpuset.MaxCPUs)
		}
	}
	return regular(levels, cores, threads)
}

// parseLevels reads a description. Cores are always among the levels.
func parseLevels(text string) ([]level, error) {
	const how = "write counts as in 2s8c2t: s sockets, then n NUMA nodes, d dies and l L3 caches, c cores, t threads, each per unit of the previous level"
	depth := map[byte]int{'s': 0, 'n': 1, 'd': 1, 'l': 1, 'c': 2, 't': 3} // equal levels can be exchanged
	var levels []level
	for rest := text; rest != ""; {
		at := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if at <= 0 {
			return nil, fmt.Errorf("no count and letter at %q; %s", rest, how)
		}
		count, err := strconv.Atoi(rest[:at])
		if err != nil || count < 1 || count > cpuset.MaxCPUs {
			return nil, fmt.Errorf("count %s is outside 1-%d", rest[:at], cpuset.MaxCPUs)
		}
		letter := rest[at]
		rest = rest[at+1:]
		switch {
		case !strings.Contains("sndlct", string(letter)):
			return nil, fmt.Errorf("%q is not known; %s", letter, how)
		case slices.ContainsFunc(levels, func(l level) bool { return l.letter == letter }):
			return nil, fmt.Errorf("%q occurs twice; %s", letter, how)
		case len(levels) > 0 && depth[levels[len(levels)-1].letter] > depth[letter]:
			return nil, fmt.Errorf("%q stands behind %q, which is inside it; %s", letter, levels[len(levels)-1].letter, how)
		}
		levels = append(levels, level{letter, count})
	}
	if !slices.ContainsFunc(levels, func(l level) bool { return l.letter == 'c' }) {
		return nil, fmt.Errorf("no number of cores; %s", how)
	}
	return levels, nil
}

func regular(levels []level, cores, threads int) (*topology.Topology, error) {
	places := make([]topology.Place, 0, cores*threads)
	for core := range cores {
		// unit is the number of the core's unit at a level: the core's number divided by
		// the cores in one unit of that level.
		p := topology.Place{Core: core, L3: -1}
		below, inSocket := cores, cores
		for _, l := range levels {
			if l.letter == 't' {
				continue
			}
			below /= l.count
			unit := core / below
			switch l.letter {
			case 's':
				p.Package, p.Node, inSocket = unit, unit, below // a NUMA node for each socket, unless n follows
			case 'd':
				p.Die = unit % (inSocket / below) // the kernel's numbers start at 0 in each socket
			case 'n':
				p.Node = unit
			case 'l':
				p.L3 = unit
			}
		}
		for thread := range threads {
			p.ID = thread*cores + core
			places = append(places, p)
		}
	}
	return topology.Assemble(places, nodesOf(places))
}

// Distances of NUMA nodes, as firmware of servers has them: of one socket, and of
// different ones.
const (
	distanceHere   = 10
	distanceSocket = 12
	distanceFar    = 20
)

// nodesOf are the NUMA nodes that places are in.
func nodesOf(places []topology.Place) []topology.Node {
	var packages []int // by node
	for _, p := range places {
		for len(packages) <= p.Node {
			packages = append(packages, p.Package)
		}
		packages[p.Node] = p.Package
	}
	nodes := make([]topology.Node, len(packages))
	for i := range nodes {
		nodes[i] = topology.Node{ID: i, HasMemory: true, Distances: make([]int, len(packages))}
		for j := range packages {
			switch {
			case i == j:
				nodes[i].Distances[j] = distanceHere
			case packages[i] == packages[j]:
				nodes[i].Distances[j] = distanceSocket
			default:
				nodes[i].Distances[j] = distanceFar
			}
		}
	}
	return nodes
}
