package kubelet_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// shape describes a machine. Each count is per unit of the previous field.
type shape struct {
	sockets, nodes, caches, cores, threads int
	// small are single-threaded cores in each cache, after the others: a hybrid.
	small int
	// shared is the number of sockets in one NUMA node, if nodes is 1.
	shared int
	// adjacent siblings are 2n and 2n+1; otherwise they are n and n+cores.
	adjacent bool
	// alternate sockets have every other core, as on many machines of one maker.
	alternate bool
}

type namedShape struct {
	name  string
	shape shape
}

func (s shape) String() string {
	return fmt.Sprintf("%ds%dn%dl%dc%dt-small%d-shared%d-adj%t-alt%t",
		s.sockets, s.nodes, s.caches, s.cores, s.threads, s.small, s.shared, s.adjacent, s.alternate)
}

// table numbers the CPUs of the machine. A core has the number of its first CPU,
// as in the kubelet's discovery.
func (s shape) table() choice.Table {
	inSocket := s.nodes * s.caches * (s.cores + s.small)
	large := s.sockets * s.nodes * s.caches * s.cores
	var table choice.Table
	next := 0 // number of the next large core
	single := large * s.threads
	for i := range s.sockets * inSocket {
		socket, at := i/inSocket, i%inSocket
		if s.alternate {
			socket, at = i%s.sockets, i/s.sockets
		}
		cache := at / (s.cores + s.small)
		row := [5]int{choice.Socket: socket, choice.Node: (socket*s.nodes + cache/s.caches) / s.shared, choice.Cache: socket*s.nodes*s.caches + cache}
		if at%(s.cores+s.small) >= s.cores {
			row[choice.CPU], row[choice.Core] = single, single
			table = append(table, row)
			single++
			continue
		}
		for thread := range s.threads {
			row[choice.CPU] = next + thread*large
			if s.adjacent {
				row[choice.CPU] = next*s.threads + thread
			}
			if thread == 0 {
				row[choice.Core] = row[choice.CPU]
			}
			table = append(table, row)
		}
		next++
	}
	return table
}

// anyShape is a machine of up to 128 CPUs or so.
func anyShape(r *rand.Rand) shape {
	for {
		s := shape{
			sockets: []int{1, 1, 2, 2, 4}[r.IntN(5)], nodes: []int{1, 1, 1, 2, 4}[r.IntN(5)],
			caches: []int{1, 1, 2, 3, 4}[r.IntN(5)], cores: 1 + r.IntN(8), threads: []int{1, 2, 2, 2, 4}[r.IntN(5)],
			shared: 1, adjacent: r.IntN(3) == 0, alternate: r.IntN(3) == 0,
		}
		if s.nodes == 1 && s.sockets > 1 && r.IntN(8) == 0 {
			s.shared = 2
		}
		if s.threads == 2 && r.IntN(8) == 0 {
			s.small = s.threads * (1 + r.IntN(3))
		}
		if cpus := s.sockets * s.nodes * s.caches * (s.cores*s.threads + s.small); cpus >= 4 && cpus <= 128 {
			return s
		}
	}
}
