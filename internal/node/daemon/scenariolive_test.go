package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// scriptLive is the live audit of a transcript. It prints the calls of the program between the writes of the loop.
// Its goroutine only loads the program, so the calls have one order.
type scriptLive struct {
	*liveProgram
	s      *script
	opened chan struct{} // The program has its first owners.
	shown  string
	isOpen bool // The transcript has the first owners.
}

// startLive makes the loop audit live if its configuration has liveYAML.
func (s *script) startLive(l *Loop) {
	if s.live = nil; !strings.Contains(s.YAML, liveYAML) {
		return
	}
	s.live = &scriptLive{liveProgram: newLiveProgram(s.Tree, true), s: s, opened: make(chan struct{})}
	l.publisher.CgroupExists = s.live.exists
	s.Tree.Intercept(s.live.write)
	ctx, cancel := context.WithCancel(s.ctx)
	var audit sync.WaitGroup
	audit.Go(func() { l.publisher.Live.Run(ctx, func() (liveaudit.Program, error) { return s.live, nil }) })
	stop := s.stop
	s.stop = func() { stop(); cancel(); audit.Wait(); s.live = nil }
}

// awaitLive waits until the program of the audit is loaded, and prints its owners.
func (s *script) awaitLive() {
	if s.live == nil || s.live.isOpen || !s.loop.publisher.Live.IsOn() {
		return
	}
	<-s.live.opened
	s.live.isOpen = true
	s.live.show()
}

func (p *scriptLive) Release(cpus cpuset.Set) {
	p.liveProgram.Release(cpus)
	p.print("audit: release CPUs " + cpus.String())
}

func (p *scriptLive) Own(owners []schedwatch.Owner) (watched cpuset.Set, err error) {
	watched, err = p.liveProgram.Own(owners)
	if p.isOpen {
		p.show()
		return watched, err
	}
	select {
	case <-p.opened:
	default:
		close(p.opened)
	}
	return watched, err
}

// show prints the owners of CPUs if they have changed.
func (p *scriptLive) show() {
	cpus := make(map[string]cpuset.Set)
	for cpu, owners := range p.now() {
		cpus[strings.Join(owners, " ")] = cpus[strings.Join(owners, " ")].Union(cpuset.Of(cpu))
	}
	var all []string
	for _, owner := range slices.SortedFunc(maps.Keys(cpus), func(a, b string) int { return cpus[a].First() - cpus[b].First() }) {
		all = append(all, fmt.Sprintf("%s of %s", cpus[owner], owner))
	}
	if text := "audit: watch CPUs " + strings.Join(all, ", "); text != p.shown && len(all) > 0 {
		p.shown = text
		p.print(text)
	}
}

// print prints a call after the writes before it.
func (p *scriptLive) print(text string) {
	p.s.written()
	p.s.printf("%s", text)
	if strings.HasPrefix(text, "audit: release") {
		p.shown = ""
	}
}

// wrong prints the writes that would have made false reports.
func (s *script) wrong() {
	if s.live == nil {
		return
	}
	if _, err := s.live.mark(); err != nil {
		s.printf("error: %v", err)
	}
}
