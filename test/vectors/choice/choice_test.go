package choice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// table is two sockets, each with two nodes of one core with two threads.
func table() choice.Table {
	return choice.Table{
		{0, 0, 0, 0, 0}, {4, 0, 0, 0, 0}, {1, 1, 0, 1, 1}, {5, 1, 0, 1, 1},
		{2, 2, 1, 2, 2}, {6, 2, 1, 2, 2}, {3, 3, 1, 3, 3}, {7, 3, 1, 3, 3},
	}
}

func TestCount(t *testing.T) {
	topology, err := table().Topology()
	if err != nil {
		t.Fatal(err)
	}
	got := choice.Count(topology, cpuset.Of(0, 4, 1, 2))
	want := choice.Counts{Nodes: 3, Packages: 2, L3s: 3, Split: 2, Cores: 3, Uneven: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Count (-want +got):\n%s", diff)
	}
}

func TestTopologyTwice(t *testing.T) {
	if _, err := append(table(), [5]int{7, 3, 1, 3, 3}).Topology(); err == nil {
		t.Error("table with CPU 7 twice = no error; want one")
	}
}

func TestWorse(t *testing.T) {
	socket := allocate.Options{AlignBySocket: true}
	socketAndCache := allocate.Options{AlignBySocket: true, PreferAlignCPUsByUncoreCache: true}
	theirs := choice.Counts{Nodes: 2, Packages: 2, L3s: 2, Split: 1, Cores: 4, Uneven: 0}
	for name, c := range map[string]struct {
		options   allocate.Options
		change    func(*choice.Counts)
		worse     int
		fairTrade bool
	}{
		"equal":                   {change: func(*choice.Counts) {}},
		"better":                  {change: func(c *choice.Counts) { c.Split = 0 }},
		"one node more":           {change: func(c *choice.Counts) { c.Nodes = 3 }, worse: 1},
		"a node for a split core": {change: func(c *choice.Counts) { c.Nodes, c.Split = 3, 0 }, worse: 1, fairTrade: true},
		"a split core for a node": {change: func(c *choice.Counts) { c.Nodes, c.Split = 1, 2 }, worse: 1},
		"a cache for a socket":    {change: func(c *choice.Counts) { c.Packages, c.L3s = 1, 3 }, worse: 1, fairTrade: true},
		"caches come first":       {options: allocate.Options{PreferAlignCPUsByUncoreCache: true}, change: func(c *choice.Counts) { c.Packages, c.L3s = 1, 3 }, worse: 1},
		"sockets before caches":   {options: socketAndCache, change: func(c *choice.Counts) { c.Packages, c.L3s = 1, 3 }, worse: 1, fairTrade: true},
		"a socket for a cache":    {options: socketAndCache, change: func(c *choice.Counts) { c.Packages, c.L3s = 3, 1 }, worse: 1},
		"sockets before nodes":    {options: socket, change: func(c *choice.Counts) { c.Packages, c.Nodes = 1, 3 }, worse: 1, fairTrade: true},
		"a socket for a node":     {options: socket, change: func(c *choice.Counts) { c.Packages, c.Nodes = 3, 1 }, worse: 1},
		"uneven":                  {options: allocate.Options{DistributeCPUsAcrossNUMA: true}, change: func(c *choice.Counts) { c.Uneven = 1 }, worse: 1},
		"fewer cores":             {options: allocate.Options{DistributeCPUsAcrossCores: true}, change: func(c *choice.Counts) { c.Cores = 3 }, worse: 1},
	} {
		ours := theirs
		c.change(&ours)
		if worse, trade := choice.Worse(c.options, ours, theirs); len(worse) != c.worse || trade != c.fairTrade {
			t.Errorf("%s: Worse = %q, %t; want %d, %t", name, worse, trade, c.worse, c.fairTrade)
		}
	}
}
