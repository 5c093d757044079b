package demo

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// twoNodes is a machine of two NUMA nodes of two cores with two threads, whose numbers are far apart, and a node of memory alone.
func twoNodes() files {
	f := files{
		"sys/devices/system/node/node0/cpulist": []byte("0-1,4-5\n"),
		"sys/devices/system/node/node2/cpulist": []byte("2-3,6-7\n"),
		"sys/devices/system/node/node3/cpulist": []byte("\n"),
	}
	for cpu, threads := range []string{"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"} {
		f["sys/devices/system/cpu/cpu"+string(rune('0'+cpu))+"/topology/thread_siblings_list"] = []byte(threads + "\n")
	}
	return f
}

func TestShape(t *testing.T) {
	s, err := parseShape(twoNodes())
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]struct {
		cores int
		nodes cpuset.Set
	}{
		"0":     {0, cpuset.Of(0)},
		"0-1":   {0, cpuset.Of(0)},
		"0,4":   {1, cpuset.Of(0)},
		"2,6-7": {1, cpuset.Of(2)},
		"0,2,6": {1, cpuset.Of(0, 2)},
		"0-7":   {4, cpuset.Of(0, 2)},
	} {
		cpus, err := cpuset.Parse(set)
		if err != nil {
			t.Fatal(err)
		}
		if cores, nodes := s.wholeCores(cpus), s.nodesOf(cpus); cores != want.cores || !nodes.Equal(want.nodes) {
			t.Errorf("%s: %d whole cores, nodes %s; want %d, %s", set, cores, nodes, want.cores, want.nodes)
		}
	}
}

func TestShapeOfBadInput(t *testing.T) {
	for name, want := range map[string]string{
		"sys/devices/system/node/node0/cpulist":                     "sys/devices/system/node/node0/cpulist",
		"sys/devices/system/node/nodeX/cpulist":                     "sys/devices/system/node/nodeX/cpulist",
		"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "cpu0/topology",
	} {
		f := twoNodes()
		f[name] = []byte("0-\n")
		if strings.Contains(name, "nodeX") {
			f[name] = []byte("0\n")
		}
		if _, err := parseShape(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parseShape with %s = %q: %v; want an error with %q", name, f[name], err, want)
		}
	}
}
