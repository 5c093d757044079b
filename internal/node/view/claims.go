package view

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Claims implements control.Answers.
func (o *Answers) Claims() *inspect.Claims {
	in := o.Now()
	all := &inspect.Claims{Version: inspect.Version, Started: o.started, Sequence: in.History.Last(), Devices: []inspect.ClaimDevice{}, Claims: []inspect.Claim{}}
	if !in.Planned {
		all.Problem = "the daemon has not finished its first pass"
		return all
	}
	var taken cpuset.Set
	for i := range in.Plan.Claims {
		p := &in.Plan.Claims[i]
		taken = taken.Union(p.CPUs, p.Away)
		all.Claims = append(all.Claims, in.claim(p))
	}
	all.Devices = inspect.ClaimDevices(&in.Input.Pools, in.Settings.Machine, taken)
	all.Ready = true
	return all
}

// claim returns the document of a claim.
func (in *Snapshot) claim(p *pools.ClaimPlan) inspect.Claim {
	c := inspect.Claim{UID: p.UID, Namespace: p.Namespace, Name: p.Name, PodUID: p.PodUID, Containers: p.Containers, CPUs: p.CPUs, Away: p.Away}
	if c.Containers == nil {
		c.Containers = []string{}
	}
	if i := slices.IndexFunc(in.Plan.Pods, func(pod pools.PodPlan) bool { return pod.UID == p.PodUID }); i >= 0 {
		c.Pod = in.Plan.Pods[i].Namespace + "/" + in.Plan.Pods[i].Name
	}
	for _, part := range p.Parts {
		c.Parts = append(c.Parts, inspect.ClaimPart{Request: part.Request, Device: part.Device, ShareID: part.ShareID, CPUs: part.On.Union(part.Away)})
	}
	for _, problem := range in.Problems {
		if problem.Claim == p.Namespace+"/"+p.Name {
			c.Problems = append(c.Problems, problem.Text)
		}
	}
	return c
}
