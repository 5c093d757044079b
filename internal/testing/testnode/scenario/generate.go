package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Bounds are what a sequence may use.
type Bounds struct {
	// Pods is how many pods there are at once at most; CPUs the most that one
	// container asks for.
	Pods, CPUs int
	// Configs is the number of configurations, Nodes that of NUMA nodes; without
	// nodes there are no devices, and no kubelet is asked for them.
	Configs, Nodes int
	Units          []string
	// Kills is how many of 100 steps kill the daemon, beside the few that do so
	// anyway.
	Kills int
	// Moves is how many of 100 steps ask for a move of somebody's exclusive CPUs; 0
	// for who cannot ask the daemon.
	Moves int
	// Writes is how many of 100 steps are somebody else's writes to a cgroup; 0 for who
	// cannot make any.
	Writes int
	// Resizes is how many of 100 steps resize a container: 0 where nobody tells the
	// daemon.
	Resizes int
	// Pluggable are the CPUs that go offline and come back, two at a time at most.
	Pluggable []int
}

// Generate makes n steps from a seed.
func Generate(seed uint64, n int, b Bounds) []Step {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0)), bounds: b} //nolint:gosec // to be repeatable is the point
	for len(g.steps) < n {
		g.next()
	}
	return g.steps[:n]
}

type generator struct {
	rand   *rand.Rand
	bounds Bounds
	steps  []Step
	pods   []*pod
	made   int
}

// pod is a pod as the kubelet knows it: what has run, and what is still to come.
type pod struct {
	uid        string
	spec       PodSpec
	stopped    bool
	containers []*container
}

type container struct {
	name  string
	spec  ContainerSpec
	state Kind // of the last step about it; empty before the first
}

func (g *generator) emit(s Step) { g.steps = append(g.steps, s) }

// next emits one or more steps. Each kind has its weight.
func (g *generator) next() {
	type choice struct {
		weight int
		make   func() bool // false if there is nothing to do of that kind
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
			c.make()
			return
		}
	}
}

func (g *generator) newPod() bool {
	if len(g.pods) >= g.bounds.Pods {
		return g.endPod()
	}
	g.made++
	p := &pod{uid: fmt.Sprintf("pod-%d", g.made)}
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
	return true
}

// guaranteed fills in a Guaranteed pod, whose total the kubelet knows (KEP-753: the
// larger of what runs at once and the largest init container).
func (g *generator) guaranteed(p *pod, add func(string, int, bool)) {
	p.spec.QoS = "guaranteed"
	most, sum := 0, 0
	size := func() int {
		if g.rand.IntN(6) == 0 { // now and then more than there can be
			return 1 + g.rand.IntN(2*g.bounds.CPUs)
		}
		return 1 + g.rand.IntN(g.bounds.CPUs)
	}
	for i := range g.rand.IntN(3) {
		n := size()
		most = max(most, n)
		add(fmt.Sprintf("init-%d", i), 1000*n, true)
	}
	for i := range 1 + g.rand.IntN(2) {
		n := size()
		sum += n
		add(fmt.Sprintf("app-%d", i), 1000*n, false)
	}
	fraction := g.rand.IntN(4) == 0
	if fraction {
		add("side", 200, false)
	}
	if g.rand.IntN(4) > 0 { // else the kubelet is too old to tell
		p.spec.CPUs = max(most, sum)
	}
	p.spec.Mixed = g.rand.IntN(3) == 0
	if g.bounds.Nodes > 0 && g.rand.IntN(3) == 0 {
		p.spec.Devices = g.rand.IntN(g.bounds.Nodes)
	}
}

// advancePod lets a pod go on as the kubelet does: init containers one after the
// other, then the others.
func (g *generator) advancePod() bool {
	p := g.pick(func(p *pod) bool { return !p.stopped })
	if p == nil {
		return g.newPod()
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
		return true
	}
	return false
}

// restart ends a container and starts it again, with another id.
func (g *generator) restart() bool {
	p := g.pick(func(p *pod) bool {
		return !p.stopped && slices.ContainsFunc(p.containers, func(c *container) bool { return !c.spec.Init && c.state == StartContainer })
	})
	if p == nil {
		return g.advancePod()
	}
	running := slices.DeleteFunc(slices.Clone(p.containers), func(c *container) bool { return c.spec.Init || c.state != StartContainer })
	c := running[g.rand.IntN(len(running))]
	c.state = StopContainer
	g.emit(Step{Kind: StopContainer, Pod: p.uid, Container: c.name})
	if g.rand.IntN(3) == 0 {
		g.emit(Step{Kind: RemoveContainer, Pod: p.uid, Container: c.name})
	}
	return true
}

func (g *generator) endPod() bool {
	p := g.pick(func(*pod) bool { return true })
	if p == nil {
		return false
	}
	if !p.stopped {
		p.stopped = true
		g.emit(Step{Kind: StopPod, Pod: p.uid})
		return true
	}
	g.pods = slices.DeleteFunc(g.pods, func(q *pod) bool { return q == p })
	g.emit(Step{Kind: RemovePod, Pod: p.uid})
	return true
}

func (g *generator) reload() bool {
	g.emit(Step{Kind: Reload, Config: g.rand.IntN(g.bounds.Configs)})
	return true
}

func (g *generator) daemon() bool {
	switch g.rand.IntN(3) {
	case 0:
		g.emit(Step{Kind: RestartDaemon})
	case 1:
		g.emit(Step{Kind: LoseJournal})
	default:
		return g.kill()
	}
	return true
}

func (g *generator) kill() bool {
	g.emit(Step{Kind: KillDaemon, After: g.rand.IntN(6)})
	return true
}

func (g *generator) unit() bool {
	if len(g.bounds.Units) == 0 {
		return false
	}
	kind := StartUnit
	if g.rand.IntN(2) == 0 {
		kind = StopUnit
	}
	g.emit(Step{Kind: kind, Unit: g.bounds.Units[g.rand.IntN(len(g.bounds.Units))]})
	return true
}

func (g *generator) move() bool {
	g.emit(Step{Kind: MoveOwner, Pick: g.rand.Uint64()})
	return true
}

func (g *generator) write() bool {
	g.emit(Step{Kind: ForeignWrite, Pick: g.rand.Uint64()})
	return true
}

// resize gives a running container of a Guaranteed pod without init containers another
// size: what the pod's total is then follows from it.
func (g *generator) resize() bool {
	p := g.pick(func(p *pod) bool {
		return !p.stopped && p.spec.QoS == "guaranteed" && p.containers[0].state == StartContainer && !p.containers[0].spec.Init
	})
	if p == nil {
		return false
	}
	c := p.containers[0]
	c.spec.Milli = 1000 * (1 + g.rand.IntN(g.bounds.CPUs))
	if g.rand.IntN(4) == 0 {
		c.spec.Milli -= 500 // from now on it shares, or does no more
	}
	g.emit(Step{Kind: ResizeContainer, Pod: p.uid, Container: c.name, Spec: c.spec})
	return true
}

func (g *generator) plug() bool {
	s := Step{Kind: PlugCPUs}
	for range g.rand.IntN(3) {
		s.Offline = append(s.Offline, g.bounds.Pluggable[g.rand.IntN(len(g.bounds.Pluggable))])
	}
	g.emit(s)
	return true
}

func (g *generator) systemd() bool {
	g.emit(Step{Kind: ReloadSystemd})
	return true
}

func (g *generator) kubelet() bool {
	if g.bounds.Nodes == 0 {
		return false
	}
	kind := SilenceKubelet
	if g.rand.IntN(2) == 0 {
		kind = UnsilenceKubelet
	}
	g.emit(Step{Kind: kind})
	return true
}

// pick returns a pod that will do, nil if there is none.
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
