package nodestatus_test

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func set(t *testing.T, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestZones(t *testing.T) {
	nodes := []nodestatus.NUMANode{
		{ID: 0, CPUs: set(t, "0-7"), Distances: map[int]int{0: 10, 3: 21}},
		{ID: 3, CPUs: set(t, "8-15"), Distances: map[int]int{0: 21, 3: 10}},
	}
	for name, c := range map[string]struct {
		layout capacity.Layout
		free   string
		want   []map[string]nodestatus.ZoneAmounts
	}{
		"all is free": {
			capacity.Layout{Shared: set(t, "2-3,10-11"), Guaranteed: set(t, "4-7,12-15"), HasGuaranteed: true}, "4-7,12-15",
			[]map[string]nodestatus.ZoneAmounts{
				{"cpu": {8000, 6000, 6000}, guaranteed: {4000, 4000, 4000}},
				{"cpu": {8000, 6000, 6000}, guaranteed: {4000, 4000, 4000}},
			},
		},
		"owners on one node": {
			capacity.Layout{Shared: set(t, "2-3,10-11"), Guaranteed: set(t, "4-7,12-15"), HasGuaranteed: true}, "4,12-15",
			[]map[string]nodestatus.ZoneAmounts{
				{"cpu": {8000, 6000, 3000}, guaranteed: {4000, 4000, 1000}},
				{"cpu": {8000, 6000, 6000}, guaranteed: {4000, 4000, 4000}},
			},
		},
		"taken CPUs": {
			capacity.Layout{Shared: set(t, "2-3"), Guaranteed: set(t, "4-7,12-15"), HasGuaranteed: true, Taken: set(t, "3,12-13")}, "4-7,13-15",
			[]map[string]nodestatus.ZoneAmounts{
				{"cpu": {8000, 5000, 5000}, guaranteed: {4000, 4000, 4000}},
				{"cpu": {8000, 2000, 2000}, guaranteed: {4000, 2000, 2000}},
			},
		},
		"no guaranteed pool": {
			capacity.Layout{Shared: set(t, "0-15")}, "",
			[]map[string]nodestatus.ZoneAmounts{{"cpu": {8000, 8000, 8000}}, {"cpu": {8000, 8000, 8000}}},
		},
		"CPUs of the pool that are offline": {
			capacity.Layout{Shared: set(t, "0-3"), Guaranteed: set(t, "4-7,16-19"), HasGuaranteed: true}, "4-7",
			[]map[string]nodestatus.ZoneAmounts{
				{"cpu": {8000, 8000, 8000}, guaranteed: {4000, 4000, 4000}},
				{"cpu": {8000, 0, 0}, guaranteed: {0, 0, 0}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			zones := nodestatus.Zones(&c.layout, nodes, set(t, c.free), guaranteed)
			var got []map[string]nodestatus.ZoneAmounts
			for i, z := range zones {
				if z.ID != nodes[i].ID || !cmp.Equal(z.Distances, nodes[i].Distances) {
					t.Errorf("zone %d is %+v", i, z)
				}
				got = append(got, z.Resources)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTopologyObject checks the whole object of a node with one zone.
func TestTopologyObject(t *testing.T) {
	topology := &nodestatus.Topology{
		Policy: "restricted",
		Zones:  []nodestatus.Zone{{ID: 1, Distances: map[int]int{1: 10, 0: 32}, Resources: map[string]nodestatus.ZoneAmounts{"cpu": {4000, 3000, 1500}, guaranteed: {2000, 2000, 0}}}},
	}
	var got, want any
	if err := json.Unmarshal(topology.Apply("n1", "u", map[int]map[string]int64{1: {"memory": 1 << 30}}), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{
		"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
		"metadata": {
			"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": "pfp0v001ef46db3751d8e999"},
			"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]
		},
		"attributes": [
			{"name": "topologyManagerPolicy", "value": "restricted"}, {"name": "topologyManagerScope", "value": "container"},
			{"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001ef46db3751d8e999"}, {"name": "nodeTopologyPodsFingerprintMethod", "value": "all"}
		],
		"zones": [{
			"name": "node-1", "type": "Node", "costs": [{"name": "node-0", "value": 32}, {"name": "node-1", "value": 10}],
			"resources": [
				{"name": "cpu", "capacity": "4000m", "allocatable": "3000m", "available": "1500m"},
				{"name": "`+guaranteed+`", "capacity": "2000", "allocatable": "2000", "available": "0"},
				{"name": "memory", "capacity": "1073741824", "allocatable": "1073741824", "available": "1073741824"}
			]
		}]
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestFingerprint checks results of podfingerprint v0.2.2 for the same pods.
func TestFingerprint(t *testing.T) {
	several := []nodestatus.PodName{{"kube-system", "coredns-7d8f9c5b6-x2x4z"}, {"ran", "du-0"}, {"default", "a"}}
	for _, c := range []struct {
		pods []nodestatus.PodName
		want string
	}{
		{nil, "pfp0v001ef46db3751d8e999"},
		{several[2:], "pfp0v00173ac1f6debaedf3d"},
		{several, "pfp0v0019dcefac004b6bfbc"},
		{[]nodestatus.PodName{several[1], several[2], several[0]}, "pfp0v0019dcefac004b6bfbc"},
	} {
		if got := nodestatus.Fingerprint(c.pods); got != c.want {
			t.Errorf("fingerprint of %v = %s; want %s", c.pods, got, c.want)
		}
	}
}

func TestNodeMemory(t *testing.T) {
	const dir = "devices/system/node/node1/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const meminfo = "Node 1 MemTotal:       8388608 kB\nNode 1 MemFree:        1048576 kB\n"
	got, err := nodestatus.Memory(fstest.MapFS{
		dir + "meminfo": file(meminfo),
		dir + "hugepages/hugepages-64kB/nr_hugepages":      file("0\n"),
		dir + "hugepages/hugepages-2048kB/nr_hugepages":    file("512\n"),
		dir + "hugepages/hugepages-1048576kB/nr_hugepages": file("2\n"),
	}, 1)
	want := map[string]int64{"memory": 5 << 30, "hugepages-64Ki": 0, "hugepages-2Mi": 1 << 30, "hugepages-1Gi": 2 << 30}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("memory (-want +got), %v:\n%s", err, diff)
	}
	for name, sys := range map[string]fstest.MapFS{
		"no such node":  {},
		"no total":      {dir + "meminfo": file("Node 1 MemFree: 1 kB\n")},
		"invalid total": {dir + "meminfo": file("Node 1 MemTotal: many kB\n")},
		"invalid pages": {dir + "meminfo": file(meminfo), dir + "hugepages/hugepages-2048kB/nr_hugepages": file("-\n")},
	} {
		if got, err := nodestatus.Memory(sys, 1); err == nil {
			t.Errorf("%s: memory %v; want an error", name, got)
		}
	}
}
