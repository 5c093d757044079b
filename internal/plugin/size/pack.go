package size

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

type packing struct {
	*demand
	kinds    []*kind
	nodes    []*node
	unplaced []*shape
}

type node struct {
	kind *kind
	name string
	free amounts
	plan *simulate.Node // has only pods that can own CPUs, until the end
	// pods are in the order in which they were placed, without pods of DaemonSets.
	pods []placed
	// refused are the reasons of the planner by the profile of a pod. Owners never leave, so a
	// refusal stays.
	refused map[string]string
	opened  Cause
}

type placed struct {
	*simulate.Pod
	shape *shape
}

func (p *packing) run(step func(all int)) error {
	for _, s := range p.sorted() {
		passed := search{counts: make(map[int]int)}
		for _, pod := range s.pods {
			isPlaced, err := p.place(s, pod, &passed)
			if err != nil {
				return err
			}
			if !isPlaced { // and so is none of the shape
				p.unplaced = append(p.unplaced, s)
				break
			}
			step(p.pods)
		}
	}
	return nil
}

// sorted returns the shapes with the largest pods first. The size of a pod is the largest part of
// the amount of an empty node. Equal pods stay in the order of their creation.
func (p *packing) sorted() []*shape {
	sizes := make(map[*shape]float64, len(p.shapes))
	for _, s := range p.shapes {
		for r, n := range s.requests {
			if most := p.most(r); n > 0 && most > 0 && most != math.MaxInt64 {
				sizes[s] = max(sizes[s], float64(n)/float64(most))
			}
		}
	}
	return slices.SortedStableFunc(slices.Values(p.shapes), func(a, b *shape) int { return cmp.Compare(sizes[b], sizes[a]) })
}

// most returns the largest amount of a resource on an empty node.
func (p *packing) most(r int) (most int64) {
	for _, k := range p.kinds {
		most = max(most, k.empty.of(r))
	}
	return most
}

// search holds the nodes that have no place for a shape. They get no pods while the pods of the
// shape are placed.
type search struct {
	at      int         // The number of these nodes. They are the first ones.
	counts  map[int]int // Nodes by the resource that they lack, or by planner or others.
	largest amounts     // free on nodes of a kind that takes the shape
	refusal string      // of the last planner that refuses the shape
}

const planner, others = -1, -2

// pass adds a node.
func (f *search) pass(n *node, s *shape) {
	f.at++
	if n.kind.trials[s].reason != "" {
		f.counts[others]++
		return
	}
	f.largest = append(f.largest, make(amounts, max(len(n.free)-len(f.largest), 0))...)
	for r, free := range n.free {
		f.largest[r] = max(f.largest[r], free)
	}
	if r := n.free.lacks(s.requests); r >= 0 {
		f.counts[r]++
		return
	}
	f.counts[planner]++
	f.refusal = n.refused[s.profile]
}

// place places a pod on the first node that has not been passed, or on a new node of the first kind
// that takes it.
func (p *packing) place(s *shape, pod *simulate.Pod, passed *search) (bool, error) {
	for passed.at < len(p.nodes) {
		n := p.nodes[passed.at]
		if fits, err := p.add(n, s, pod); fits || err != nil {
			return fits, err
		}
		passed.pass(n, s)
	}
	for _, k := range p.kinds {
		t, err := p.trial(k, s)
		if err != nil {
			return false, err
		}
		if t.reason != "" {
			continue
		}
		n := &node{kind: k, free: slices.Clone(k.empty), refused: make(map[string]string), opened: p.cause(s, pod, passed)}
		if n.plan, err = p.node(k); err != nil {
			return false, err
		}
		p.nodes = append(p.nodes, n)
		fits, err := p.add(n, s, pod)
		if err == nil && !fits {
			err = fmt.Errorf("pod %s fits on an empty node of kind %s, and not on a new one", pod.Name(), k.Name)
		}
		return fits, err
	}
	return false, nil
}

// add adds a pod to a node if it fits.
func (p *packing) add(n *node, s *shape, pod *simulate.Pod) (bool, error) {
	t, err := p.trial(n.kind, s)
	if err != nil || t.reason != "" || n.free.lacks(s.requests) >= 0 || n.refused[s.profile] != "" {
		return false, err
	}
	if !t.plain {
		on, err := n.plan.Place(pod)
		if err != nil {
			return false, err
		}
		if on.Refused != nil {
			n.refused[s.profile] = on.Refused.Text
			return false, nil
		}
	}
	n.free.take(s.requests)
	n.pods = append(n.pods, placed{pod, s})
	return true, nil
}

func (p *packing) cause(s *shape, pod *simulate.Pod, passed *search) Cause {
	c, counts := Cause{Pod: pod.Name(), Text: "it is the first pod"}, passed.counts
	if len(p.nodes) == 0 {
		return c
	}
	why := others
	for r := planner; r < len(p.table.names); r++ {
		if counts[r] > counts[why] || why == others && counts[r] > 0 {
			why = r
		}
	}
	switch why {
	case others:
		c.Text = "no node so far is of a kind that takes it"
	case planner:
		c.Text = "the scheduler finds room on other nodes, and the planner refuses it there: " + passed.refusal
	default:
		c.Resource = string(p.table.names[why])
		most := passed.largest.of(why)
		c.Text = fmt.Sprintf("its request for %s is %s, and no other node has more than %s free", c.Resource, p.text(why, s.requests.of(why)), p.text(why, most))
		if most >= s.requests.of(why) {
			c.Text = fmt.Sprintf("its request for %s is %s, and %d of %d nodes have less; other nodes lack another resource", c.Resource, p.text(why, s.requests.of(why)), counts[why], len(p.nodes))
		}
	}
	return c
}

// text returns an amount of a resource, in CPUs where the resource counts thousandths of a CPU.
func (d *demand) text(r int, n int64) string {
	switch name := d.table.names[r]; {
	case r == cpuAt || d.names.IsPool(string(name)):
		if n == 1000 {
			return "1 CPU"
		}
		return cpus(n) + " CPUs"
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return fmt.Sprint(n)
}

// cpus returns thousandths of a CPU as a number of CPUs.
func cpus(milli int64) string { return fmt.Sprint(float64(milli) / 1000) }
