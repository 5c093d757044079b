package publish

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/claimuse"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// problemKey identifies a problem without the numbers in its text: a refusal stays the same
// problem while the number of free CPUs changes.
type problemKey struct {
	pod, uid, container, unit, claim string

	code pools.Code
}

// report logs the begin and the end of each problem.
func (p *Publisher) report(pass *planning.Pass) {
	now := make(map[problemKey]bool, len(pass.Plan.Problems))
	p.problems = p.Problems(pass)
	for _, found := range p.problems {
		key := problemKey{found.Pod, found.PodUID, found.Container, found.Unit, found.Claim, found.Code}
		if !now[key] && !p.reported[key] {
			p.Log.Warn("problem appeared", "pod", found.Pod, "container", found.Container, "unit", found.Unit, "claim", found.Claim, "code", found.Code, "problem", found.Text)
			p.noteProblem(history.Problem, key, found.Text)
		}
		now[key] = true
	}
	for key := range p.reported {
		if !now[key] {
			p.Log.Info("problem is over", "pod", key.pod, "container", key.container, "unit", key.unit, "claim", key.claim, "code", key.code)
			p.noteProblem(history.Over, key, "")
		}
	}
	p.reported = now
}

func (p *Publisher) noteProblem(kind history.Kind, key problemKey, text string) {
	p.history.Add(history.Event{Kind: kind, Pod: key.pod, PodUID: key.uid, Container: key.container, Unit: key.unit, Claim: key.claim, Code: string(key.code), Cause: text})
}

// Problems returns the problems of the plan, and of everything that could not be planned.
func (p *Publisher) Problems(pass *planning.Pass) []pools.Problem {
	all := slices.Clip(pass.Plan.Problems)
	all = append(all, p.Objects.Problems()...)
	if d := p.node(pass).Depleted(); d != nil {
		all = append(all, *d)
	}
	hasSystemd := p.Host.Units != nil
	all = append(all, p.Others.Problems(p.Objects, p.Settings)...)
	all = append(all, p.Settings.UnitProblems(p.Objects, hasSystemd)...)
	all = append(all, p.Settings.HostProblems(p.Objects, pass.Hosts, hasSystemd)...)
	all = append(all, usablecpus.Problems(p.States.withheld, p.Settings.Offline())...)
	all = append(all, p.Partitions.Problems(pass.Targets)...)
	all = append(all, p.Settings.NRIProblems(p.States.nriErr)...)
	all = append(all, p.States.nriProblems()...)
	if p.States.LacksNRI(p.Host) {
		all = append(all, p.Settings.ClaimsWithoutNRI(len(pass.Plan.Claims), p.States.nriErr)...)
	}
	uses := claimuse.Node{Claims: pass.Input.Claims, Assignments: pass.Plan.Assignments}
	all = append(all, uses.Problems(p.Objects)...)
	all = append(all, p.cgroupProblems(p.Watch.Watcher().Flooding())...)
	all = append(all, p.Objects.RecordProblems(pass.Targets)...)
	all = append(all, p.Auxiliary.Problems(p.Objects)...)
	all = append(all, p.tuning.Problems()...)
	all = append(all, p.Journal.Problems(p.Host.JournalFile)...)
	all = append(all, p.Refusals.Problems()...)
	all = append(all, p.Hints.Problems(p.Objects, p.Now())...)
	if p.Host.CPUManager != nil {
		all = append(all, p.Kubelet.Problems(!p.Settings.Config.PlacesPods() || !pass.Planned || p.States.HasNRI())...)
	}
	all = append(all, p.Files.Problems()...)
	all = append(all, p.liveProblems()...)
	return all
}

// cgroupProblems returns the problems of cgroups: properties whose repairs pause because of
// external writes, threads outside of the cgroup's CPUs, and too many notices (flooding).
func (p *Publisher) cgroupProblems(flooding []cgroup.Path) (all []pools.Problem) {
	add := func(at cgroup.Path, r pools.Reason) {
		found := pools.Problem{Reason: r}
		p.Objects.NameOwner(&found, at)
		all = append(all, found)
	}
	p.Backoffs.Problems(p.Now(), add)
	for at, r := range p.Cache.Threads.Problems() {
		add(at, r)
	}
	for _, at := range flooding {
		add(at.Scope(), treewatch.FloodReason(at))
	}
	return all
}
