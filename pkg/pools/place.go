package pools

import (
	"fmt"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// placer turns verdicts and what the claims got into a plan.
type placer struct {
	pools Pools
	// free is the number of guaranteed CPUs that nobody has in the end.
	free     int
	problems []Problem
	// room has the capacity for all placements of the plan.
	room []Placement
}

func (b *placer) report(p *Pod, container string, r Reason) {
	b.problems = append(b.problems, Problem{PodUID: p.UID, Pod: p.Namespace + "/" + p.Name, Container: container, Reason: r})
}

func (b *placer) pod(p *Pod, partition Partition, verdicts []verdict, claims []claim) PodPlan {
	plan := PodPlan{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	first := len(b.room)
	for i := range p.Containers {
		ctr, v := &p.Containers[i], verdicts[i]
		at := Placement{ID: ctr.ID, Name: ctr.Name, Kind: ctr.Kind, State: ctr.State, Shares: v.shares}
		switch v.pool {
		case Management:
			at.Pool, at.Type, at.CPUs, at.Reason = Management, partition.Type, partition.CPUs, v.reason
		case Guaranteed:
			b.guaranteed(&at, claimOf(claims, ctr.Name), v)
		default:
			at.Pool, at.CPUs, at.Reason = Shared, b.pools.Shared, v.reason
		}
		at.Unlimited = at.Exclusive
		if at.Exclusive && at.State != Exited {
			plan.Unlimited = true
			plan.Reason = Reason{CodeUnlimited, "container " + clip(at.Name) + " has CPUs of its own, which bound it without a quota"}
		}
		b.room = append(b.room, at)
	}
	plan.Containers = b.room[first:len(b.room):len(b.room)]
	if shares, annotated := podShares(p, verdicts); annotated {
		plan.Shares = shares
		plan.Reason = Reason{CodeAnnotatedShares, strconv.FormatUint(shares, 10) + " shares: those of the containers together, as annotated"}
	}
	for i := range claims {
		b.reportClaim(p, &claims[i])
	}
	return plan
}

// guaranteed places a container that asks for whole CPUs.
func (b *placer) guaranteed(at *Placement, c *claim, v verdict) {
	if c == nil || c.cpus.IsEmpty() {
		at.Pool, at.CPUs = Shared, b.pools.Shared
		switch {
		case at.State == Exited:
			at.Reason = Reason{CodeExited, "has exited and holds no CPUs"}
		case c == nil:
			at.Reason = Reason{CodeSuperseded, "a newer container of this name asks for no whole CPUs"}
		case v.want == 0:
			at.Reason = v.reason
		default:
			at.Reason = b.refused(c)
		}
		return
	}
	at.Pool, at.CPUs, at.Exclusive = Guaranteed, c.cpus, true
	switch {
	case at.State == Exited:
		at.Reason = Reason{CodeHeld, "has exited; its CPUs are held for its restart"}
	case c.cpus.Len() < c.want:
		at.Reason = b.short(c)
	case v.want == c.want:
		at.Reason = v.reason
	default:
		at.Reason = Reason{CodeExclusive, whole(c.want) + " in a Guaranteed pod"}
	}
}

// reportClaim reports what a claim did not get.
func (b *placer) reportClaim(p *Pod, c *claim) {
	if c.contested {
		b.report(p, c.key.Container, Reason{CodeOverlap, "some of its recorded CPUs are recorded for another container too, which comes before it and keeps them"})
	}
	if !c.live || c.cpus.Len() >= c.want {
		return
	}
	r := b.short(c)
	if c.cpus.IsEmpty() {
		r = b.refused(c)
	}
	b.report(p, c.key.Container, r)
}

func (b *placer) refused(c *claim) Reason {
	return Reason{CodeRefused, fmt.Sprintf("asks for %s, but %s; runs in the shared pool until there are enough", whole(c.want), b.supply())}
}

func (b *placer) short(c *claim) Reason {
	return Reason{CodeShort, fmt.Sprintf("has %d of %s, but %s; gets more when there are some", c.cpus.Len(), whole(c.want), b.supply())}
}

func (b *placer) supply() string {
	return fmt.Sprintf("%d of %d CPUs of the guaranteed pool are free", b.free, b.pools.Guaranteed.Len())
}

// claimOf returns the claim of a container name, nil when there is none.
func claimOf(claims []claim, name string) *claim {
	for i := range claims {
		if claims[i].key.Container == name {
			return &claims[i]
		}
	}
	return nil
}

// podShares sums up the shares of the containers of a pod that have not exited,
// and tells whether an annotation has a part in it. Without one the kubelet knows
// the sum as well as we do.
func podShares(p *Pod, verdicts []verdict) (shares uint64, annotated bool) {
	for i := range p.Containers {
		ctr, v := &p.Containers[i], verdicts[i]
		switch {
		case ctr.Kind == Infra || ctr.State == Exited:
		case v.shares > 0:
			shares += v.shares
			annotated = true
		default:
			shares += min(ctr.Resources.Shares, workload.MaxShares)
		}
	}
	return min(max(shares, workload.MinShares), workload.MaxShares), annotated
}
