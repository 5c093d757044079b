package podresources

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// FuzzContainers checks that any answer of a kubelet gives each container once, with
// its named nodes that can exist, and that the order of words does not matter.
func FuzzContainers(f *testing.F) {
	at := func(ids ...int64) *v1.TopologyInfo {
		info := &v1.TopologyInfo{}
		for _, id := range ids {
			info.Nodes = append(info.Nodes, &v1.NUMANode{ID: id})
		}
		return info
	}
	for _, r := range []*v1.ListPodResourcesResponse{
		{},
		{PodResources: []*v1.PodResources{{Namespace: "b", Name: "p"}, {Namespace: "a", Name: "p", Containers: []*v1.ContainerResources{
			{Name: "x", Devices: []*v1.ContainerDevices{{ResourceName: "example.org/nic", Topology: at(1, -1, 1024)}, {}}},
			{Name: "x", Memory: []*v1.ContainerMemory{{MemoryType: "memory", Topology: at(0, 1023)}, {Topology: at()}}},
			{Name: "w"},
		}}}},
	} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r v1.ListPodResourcesResponse
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		got := containers(&r)
		checkNodes(t, &r, got)
		for _, p := range r.GetPodResources() {
			slices.Reverse(p.GetContainers())
			for _, c := range p.GetContainers() {
				slices.Reverse(c.GetDevices())
				slices.Reverse(c.GetMemory())
			}
		}
		slices.Reverse(r.GetPodResources())
		if again := containers(&r); !slices.EqualFunc(got, again, same) {
			t.Errorf("containers in reverse order = %v; want %v", again, got)
		}
	})
}

func same(a, b Container) bool {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	return nameOf(a) == nameOf(b) && a.Nodes.Equal(b.Nodes) && a.CPUs.Equal(b.CPUs) && text(a.Err) == text(b.Err)
}

func nameOf(c Container) name { return name{c.Namespace, c.Pod, c.Name} }

// checkNodes compares got with r node by node.
func checkNodes(t *testing.T, r *v1.ListPodResourcesResponse, got []Container) {
	t.Helper()
	type expectation struct {
		nodes      cpuset.Set
		impossible bool
	}
	want := make(map[name]expectation)
	for _, p := range r.GetPodResources() {
		for _, c := range p.GetContainers() {
			n := name{p.GetNamespace(), p.GetName(), c.GetName()}
			e := want[n]
			var infos []*v1.TopologyInfo
			for _, d := range c.GetDevices() {
				infos = append(infos, d.GetTopology())
			}
			for _, m := range c.GetMemory() {
				infos = append(infos, m.GetTopology())
			}
			for _, info := range infos {
				for _, node := range info.GetNodes() {
					if id := node.GetID(); id > 1023 {
						e.impossible = true
					} else if id >= 0 {
						e.nodes = e.nodes.Union(cpuset.Of(int(id)))
					}
				}
			}
			want[n] = e
		}
	}
	if !slices.IsSortedFunc(got, func(a, b Container) int { return nameOf(a).compare(nameOf(b)) }) {
		t.Errorf("containers = %v; want them sorted", got)
	}
	if len(got) != len(want) {
		t.Errorf("%d containers; want %d", len(got), len(want))
	}
	for _, c := range got {
		if e, ok := want[nameOf(c)]; !ok || !c.Nodes.Equal(e.nodes) || (c.Err != nil) != e.impossible {
			t.Errorf("container %v; want %v", c, e)
		}
	}
}
