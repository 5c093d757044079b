package kubelet_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/test/vectors/choice"
)

// sizes returns the machines that are measured. Half of their cores are taken.
func sizes() []namedShape {
	return []namedShape{
		{"8of1024", shape{sockets: 2, nodes: 4, caches: 8, cores: 8, threads: 2, shared: 1}},
		{"8of64", shape{sockets: 2, nodes: 1, caches: 2, cores: 8, threads: 2, shared: 1}},
	}
}

// halfFull is a machine of which every other core is taken.
func (s shape) halfFull(tb testing.TB) (choice.Table, *topology.Topology, cpuset.Set) {
	tb.Helper()
	table := s.table()
	t, err := table.Topology()
	if err != nil {
		tb.Fatal(err)
	}
	free := t.Online
	for i, core := range t.Cores {
		if i%2 == 0 {
			free = free.Difference(core.CPUs)
		}
	}
	return table, t, free
}

const cpus = 8

// ours returns a function for one allocation: it counts the free CPUs and chooses.
func (s shape) ours(tb testing.TB) func() error {
	_, t, free := s.halfFull(tb)
	m := allocate.New(t)
	return func() error {
		_, err := m.Supply(free).Take(allocate.Request{CPUs: cpus})
		return err
	}
}

// theirs returns one allocation, and a function that undoes it.
func (s shape) theirs(tb testing.TB) (take, giveBack func() error) {
	table, _, free := s.halfFull(tb)
	p, err := newPolicy(table, nil, free, cpuset.Set{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	pod := guaranteed(cpus)
	take = func() error {
		_, err := p.allocate(pod)
		return err
	}
	giveBack = func() error {
		p.state.Delete(string(pod.UID), pod.Spec.Containers[0].Name)
		p.state.SetDefaultCPUSet(toKube(free))
		return nil
	}
	return take, giveBack
}

// BenchmarkTake measures one allocation from all free CPUs of the machine. cpu-ns is CPU time
// of the process, which other work on the machine lengthens least.
func BenchmarkTake(b *testing.B) {
	for _, size := range sizes() {
		b.Run(size.name+"/cpupoold", func(b *testing.B) { measure(b, size.shape.ours(b)) })
		b.Run(size.name+"/kubelet", func(b *testing.B) {
			b.ReportAllocs()
			take, giveBack := size.shape.theirs(b)
			used := time.Duration(0)
			for b.Loop() {
				start := cputime.Of(b)
				must(b, take())
				used += cputime.Of(b) - start
				b.StopTimer()
				must(b, giveBack())
				b.StartTimer()
			}
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
		b.Run(size.name+"/dra-driver-cpu", func(b *testing.B) {
			table, _, free := size.shape.halfFull(b)
			d := newDriver(table, free)
			measure(b, func() error {
				_, err := d.take(cpus)
				return err
			})
		})
	}
}

// BenchmarkTakeInNode measures one allocation from a NUMA node that the scheduler has chosen:
// the work of a driver for a claim.
func BenchmarkTakeInNode(b *testing.B) {
	size := sizes()[0]
	table, t, free := size.shape.halfFull(b)
	node := t.Nodes[0]
	b.Run(size.name+"/cpupoold", func(b *testing.B) {
		m := allocate.New(t)
		measure(b, func() error {
			_, err := m.Supply(free.Intersection(node.CPUs)).Take(allocate.Request{CPUs: cpus})
			return err
		})
	})
	b.Run(size.name+"/dra-driver-cpu", func(b *testing.B) {
		d := newDriver(table, free)
		measure(b, func() error {
			_, err := d.takeIn(node.ID, cpus)
			return err
		})
	})
}

// measure measures an allocation that changes nothing.
func measure(b *testing.B, take func() error) {
	b.Helper()
	b.ReportAllocs()
	start := cputime.Of(b)
	for b.Loop() {
		must(b, take())
	}
	b.ReportMetric(float64(cputime.Of(b)-start)/float64(b.N), "cpu-ns/op")
}

// TestAllocations counts memory allocations, which other work on the machine does
// not change, where times would be. The kubelet must need as many times ours as
// its time must be.
func TestAllocations(t *testing.T) {
	for i, size := range sizes() {
		ratio := []float64{500, 25}[i]
		own := size.shape.ours(t)
		ours := testing.AllocsPerRun(10, func() { must(t, own()) })
		take, giveBack := size.shape.theirs(t)
		both := testing.AllocsPerRun(10, func() {
			must(t, take())
			must(t, giveBack())
		})
		theirs := both - testing.AllocsPerRun(10, func() { must(t, giveBack()) })
		t.Logf("%s: ours %v, the kubelet's %v", size.name, ours, theirs)
		if theirs < ratio*ours {
			t.Errorf("%s: %v allocations, the kubelet %v; want at least %v times as many", size.name, ours, theirs, ratio)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
