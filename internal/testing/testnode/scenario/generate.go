package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Bounds limits the steps of a sequence.
type Bounds struct {
	// Pods is the maximum number of pods at once, CPUs the maximum request of a container.
	Pods, CPUs int
	// Configs is the number of configurations, Nodes the number of NUMA nodes. Without nodes
	// there are no devices, and the daemon does not query the kubelet.
	Configs, Nodes int
	Units          []string
	// Kills is the weight of additional kills of the daemon. The fixed weights of the other kinds
	// add up to 89.
	Kills int
	// Moves is the weight of moves of exclusive CPUs; 0 if the test cannot send requests to the
	// daemon.
	Moves int
	// Writes is the weight of external writes to cgroups; 0 if the test cannot write to them.
	Writes int
	// Resizes is the weight of resizes of containers; 0 if the daemon is not informed about them.
	Resizes int
	// Pluggable holds the CPUs that can go offline, at most two at a time.
	Pluggable []int
}

// Generate returns n steps. Equal arguments give equal steps.
func Generate(seed uint64, n int, b Bounds) []Step {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0)), bounds: b} //nolint:gosec // to be repeatable is the point
	for len(g.steps) < n {
		g.next()
	}
	return g.steps[:n]
}

type generator struct {
	rand     *rand.Rand
	bounds   Bounds
	steps    []Step
	pods     []*pod
	podCount int
}

// pod is a pod with its history, from which the next step follows.
type pod struct {
	uid        string
	spec       PodSpec
	stopped    bool
	level      bool // it has pod-level resources
	containers []*container
}

type container struct {
	name  string
	spec  ContainerSpec
	state Kind // kind of the last step about it; empty before the first
}

func (g *generator) emit(s Step) { g.steps = append(g.steps, s) }

// next emits one or more steps. Each kind of step has a weight.
func (g *generator) next() {
	type choice struct {
		weight int
		emit   func()
	}
	choices := []choice{
		{12, g.newPod}, {34, g.advancePod}, {12, g.restart}, {10, g.endPod}, {5, g.reload}, {6, g.daemon}, {6, g.unit}, {2, g.systemd}, {2, g.kubelet},
		{g.bounds.Kills, g.kill}, {g.bounds.Moves, g.move}, {g.bounds.Writes, g.write}, {g.bounds.Resizes, g.resize},
		{len(g.bounds.Pluggable), g.plug},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	at := g.rand.IntN(total)
	for _, c := range choices {
		if at -= c.weight; at < 0 {
			c.emit()
			return
		}
	}
}

func (g *generator) newPod() {
	if len(g.pods) >= g.bounds.Pods {
		g.endPod()
		return
	}
	g.podCount++
	p := &pod{uid: fmt.Sprintf("pod-%d", g.podCount)}
	p.spec.Devices = -1
	add := func(name string, milli int, init bool) {
		p.containers = append(p.containers, &container{name: name, spec: ContainerSpec{Milli: milli, Init: init}})
	}
	switch g.rand.IntN(10) {
	case 0:
		p.spec.QoS = "besteffort"
		add("app", 0, false)
	case 1, 2:
		p.spec.QoS = "burstable"
		add("app", 100+g.rand.IntN(2000), false)
	case 3:
		p.spec.QoS, p.spec.Management = "burstable", true
		add("app", 100, false)
	default:
		g.guaranteed(p, add)
	}
	g.pods = append(g.pods, p)
	g.emit(Step{Kind: RunPod, Pod: p.uid, Of: p.spec})
}

// guaranteed fills in a Guaranteed pod. The kubelet computes its total as in KEP-753: the larger
// one of the sum of the containers and the largest init container.
func (g *generator) guaranteed(p *pod, add func(string, int, bool)) {
	p.spec.QoS = "guaranteed"
	most, sum := 0, 0
	size := func() int {
		if g.rand.IntN(6) == 0 { // sometimes more than the node has
			return 1 + g.rand.IntN(2*g.bounds.CPUs)
		}
		return 1 + g.rand.IntN(g.bounds.CPUs)
	}
	for i := range g.rand.IntN(3) {
		n := size()
		most = max(most, n)
		add(fmt.Sprintf("init-%d", i), 1000*n, true)
	}
	apps := 1 + g.rand.IntN(2)
	for i := range apps {
		n := size()
		sum += 1000 * n
		add(fmt.Sprintf("app-%d", i), 1000*n, false)
	}
	if g.rand.IntN(4) == 0 {
		sum += 200
		add("side", 200, false)
	}
	// The kubelet may not send the total, as old versions. Then the daemon cannot know which of
	// several containers have the CPUs of the pod.
	if g.rand.IntN(4) > 0 || apps > 1 || sum%1000 != 0 {
		p.spec.Milli = max(1000*most, sum)
	}
	if p.level = g.rand.IntN(4) == 0; p.level { // containers without their own resources have the resources of the pod
		p.spec.Milli = (max(1000*most, sum)+999)/1000*1000 + 1000
		for i := range 1 + g.rand.IntN(2) {
			add(fmt.Sprintf("bare-%d", i), p.spec.Milli, false)
		}
	}
	p.spec.Mixed = g.rand.IntN(3) == 0
	if g.bounds.Nodes > 0 && g.rand.IntN(3) == 0 {
		p.spec.Devices = g.rand.IntN(g.bounds.Nodes)
	}
}

// advancePod emits the next step of a pod in the order of the kubelet: one init container at a
// time, then the others.
func (g *generator) advancePod() {
	p := g.pick(func(p *pod) bool { return !p.stopped })
	if p == nil {
		g.newPod()
		return
	}
	for _, c := range p.containers {
		step := Step{Pod: p.uid, Container: c.name}
		switch c.state {
		case "":
			step.Kind, step.Spec = CreateContainer, c.spec
		case CreateContainer:
			step.Kind = StartContainer
		case StartContainer:
			if !c.spec.Init {
				continue
			}
			step.Kind = StopContainer
		case StopContainer:
			if c.spec.Init {
				continue
			}
			step.Kind, step.Spec = CreateContainer, c.spec
		}
		c.state = step.Kind
		g.emit(step)
		return
	}
}

// restart stops a container; advancePod creates it again with a new ID. Some are also removed.
func (g *generator) restart() {
	p := g.pick(func(p *pod) bool {
		return !p.stopped && slices.ContainsFunc(p.containers, func(c *container) bool { return !c.spec.Init && c.state == StartContainer })
	})
	if p == nil {
		g.advancePod()
		return
	}
	running := slices.DeleteFunc(slices.Clone(p.containers), func(c *container) bool { return c.spec.Init || c.state != StartContainer })
	c := running[g.rand.IntN(len(running))]
	c.state = StopContainer
	g.emit(Step{Kind: StopContainer, Pod: p.uid, Container: c.name})
	if g.rand.IntN(3) == 0 {
		g.emit(Step{Kind: RemoveContainer, Pod: p.uid, Container: c.name})
	}
}

func (g *generator) endPod() {
	p := g.pick(func(*pod) bool { return true })
	if p == nil {
		return
	}
	if !p.stopped {
		p.stopped = true
		g.emit(Step{Kind: StopPod, Pod: p.uid})
		return
	}
	g.pods = slices.DeleteFunc(g.pods, func(q *pod) bool { return q == p })
	g.emit(Step{Kind: RemovePod, Pod: p.uid})
}

func (g *generator) reload() {
	g.emit(Step{Kind: Reload, Config: g.rand.IntN(g.bounds.Configs)})
}

func (g *generator) daemon() {
	switch g.rand.IntN(3) {
	case 0:
		g.emit(Step{Kind: RestartDaemon})
	case 1:
		g.emit(Step{Kind: LoseJournal})
	default:
		g.kill()
	}
}

func (g *generator) kill() {
	g.emit(Step{Kind: KillDaemon, After: g.rand.IntN(6)})
}

func (g *generator) unit() {
	if len(g.bounds.Units) == 0 {
		return
	}
	kind := StartUnit
	if g.rand.IntN(2) == 0 {
		kind = StopUnit
	}
	g.emit(Step{Kind: kind, Unit: g.bounds.Units[g.rand.IntN(len(g.bounds.Units))]})
}

func (g *generator) move() {
	g.emit(Step{Kind: MoveOwner, Pick: g.rand.Uint64()})
}

func (g *generator) write() {
	g.emit(Step{Kind: ForeignWrite, Pick: g.rand.Uint64()})
}

// resize resizes a running container of a Guaranteed pod without init containers, so that the new
// total of the pod is known.
func (g *generator) resize() {
	p := g.pick(func(p *pod) bool {
		return !p.stopped && p.spec.QoS == "guaranteed" && p.containers[0].state == StartContainer && !p.containers[0].spec.Init && !p.level
	})
	if p == nil {
		return
	}
	c := p.containers[0]
	c.spec.Milli = 1000 * (1 + g.rand.IntN(g.bounds.CPUs))
	if g.rand.IntN(4) == 0 {
		c.spec.Milli -= 500 // not whole: the container shares
	}
	g.emit(Step{Kind: ResizeContainer, Pod: p.uid, Container: c.name, Spec: c.spec})
}

func (g *generator) plug() {
	s := Step{Kind: PlugCPUs}
	for range g.rand.IntN(3) {
		s.Offline = append(s.Offline, g.bounds.Pluggable[g.rand.IntN(len(g.bounds.Pluggable))])
	}
	g.emit(s)
}

func (g *generator) systemd() {
	g.emit(Step{Kind: ReloadSystemd})
}

func (g *generator) kubelet() {
	if g.bounds.Nodes == 0 {
		return
	}
	kind := SilenceKubelet
	if g.rand.IntN(2) == 0 {
		kind = UnsilenceKubelet
	}
	g.emit(Step{Kind: kind})
}

// pick returns a random pod for which will returns true, or nil.
func (g *generator) pick(will func(*pod) bool) *pod {
	var some []*pod
	for _, p := range g.pods {
		if will(p) {
			some = append(some, p)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[g.rand.IntN(len(some))]
}
