package inventory

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeUnread is the code of objects that the runtime lists without the details that
// planning needs.
const codeUnread pools.Code = "RuntimeDetailsMissing"

// Problems returns a problem for each pod and container without details, sorted by id.
func (m *Objects) Problems() []pools.Problem {
	var all []pools.Problem
	for _, id := range sortedWhere(m.pods, func(e *Pod) bool { return e.unlisted || e.err != nil }) {
		e := m.pods[id]
		p := pools.Problem{PodUID: e.UID, Pod: e.Name(), Reason: pools.Reason{Code: codeUnread}}
		if e.unlisted {
			p.Text = fmt.Sprintf("sandbox %s: %s", id, errUnlisted)
		} else {
			p.Text = e.err.Error()
		}
		all = append(all, p)
	}
	for _, id := range sortedWhere(m.containers, func(e *Container) bool { return e.err != nil }) {
		e := m.containers[id]
		all = append(all, e.problem(codeUnread, e.err.Error()))
	}
	return all
}

func (e *Container) problem(code pools.Code, text string) pools.Problem {
	p := pools.Problem{Container: e.Container.Name, Reason: pools.Reason{Code: code, Text: text}}
	if pod := e.Pod(); pod != nil {
		p.PodUID, p.Pod = pod.UID, pod.Name()
	}
	return p
}

// codeSharedCPUs is the code of containers to which CRI-O would add foreign CPUs.
const codeSharedCPUs pools.Code = "SharedCPUsVariable"

// RecordProblems returns a problem for each target whose container the daemon does not update
// over CRI, because CRI-O would add foreign CPUs.
func (m *Objects) RecordProblems(targets []cgroup.Target) []pools.Problem {
	const longest = 80 // characters of a value that the pod chooses
	var all []pools.Problem
	for i := range targets {
		t := &targets[i]
		e := m.containers[t.Container]
		if t.NoCRI && e != nil {
			all = append(all, e.problem(codeSharedCPUs, fmt.Sprintf(
				"the container's environment has %s=%.*q, which cpupoold has not set; CRI-O adds these CPUs to the container with each update. "+
					"The daemon keeps the container on CPUs %s, and does not record them with CRI-O. "+
					"Remove the variable from pod and image, or enable NRI, then create the pod again",
				cri.SharedCPUsVariable, longest, e.Container.SharedCPUs, t.CPUs)))
		}
	}
	return all
}

// NameOwner adds the container of a cgroup to a problem, or the pod whose slice contains it.
func (m *Objects) NameOwner(p *pools.Problem, at cgroup.Path) {
	var pod *Pod
	if e := m.ContainerAt(at); e != nil {
		p.Container = e.Container.Name
		pod = e.Pod()
	} else {
		pod = m.PodAt(at.Parent())
	}
	if pod != nil {
		p.PodUID, p.Pod = pod.UID, pod.Name()
	}
}

// sortedWhere returns the sorted keys of the entries for which is returns true.
func sortedWhere[E any](all map[string]E, is func(E) bool) (keys []string) {
	for key, e := range all {
		if is(e) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
