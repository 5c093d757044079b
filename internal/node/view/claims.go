package view

import (
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// Claims implements control.Answers.
func (o *Answers) Claims() *inspect.Claims {
	in := o.Now()
	all := &inspect.Claims{Version: inspect.Version, Started: o.started, Sequence: in.History.Last(), Devices: []inspect.ClaimDevice{}, Claims: []inspect.Claim{}}
	if !in.Planned {
		all.Problem = "the daemon has not finished its first pass"
		return all
	}
	all.Devices, all.Claims = in.devices(), inspect.ClaimsOf(&in.Plan, in.Problems)
	switch {
	case in.Observes:
		all.Problem = "the daemon observes, and prepares no claims; set mode: enforce"
	case in.View.Sources[telemetry.NRI] != telemetry.SourceOK:
		all.Problem = inspect.ClaimsWithoutNRI
	default:
		all.Ready = true
	}
	return all
}

// devices returns the devices of ResourceClaims, none before the first plan.
func (in *Snapshot) devices() []inspect.ClaimDevice {
	if in.Settings.Machine == nil {
		return []inspect.ClaimDevice{}
	}
	return inspect.ClaimDevices(&in.Input.Pools, in.Settings.Machine, inspect.TakenByClaims(&in.Plan))
}

// Claims returns the numbers of ResourceClaims and of their CPUs. It returns nil without CPUs for
// claims and without claims.
func (n Node) Claims() *telemetry.Claims {
	p := &n.Settings.Pools
	if n.Settings.Machine == nil || inspect.PoolOfClaims(p, n.Plan) == nil {
		return nil
	}
	c := &telemetry.Claims{Devices: make(map[string]telemetry.DeviceCPUs)}
	away := p.Claims.Away
	for _, d := range inspect.ClaimDevices(p, n.Settings.Machine, inspect.TakenByClaims(n.Plan)) {
		c.Devices[d.Name] = telemetry.DeviceCPUs{Free: d.Free.Len()}
	}
	for i := range n.Plan.Claims {
		claim := &n.Plan.Claims[i]
		switch {
		case claim.Refused != nil:
			c.Refused++
		case len(claim.Containers) == 0:
			c.Prepared++
		default:
			c.Used++
		}
		for _, part := range claim.Parts {
			if part.On.IsEmpty() && part.Away.IsEmpty() {
				continue
			}
			d := c.Devices[part.Device]
			d.Allocated, d.Offline = d.Allocated+part.On.Len(), d.Offline+part.Away.Len()
			c.Devices[part.Device] = d
			away = away.Difference(part.Away)
		}
	}
	if !away.IsEmpty() {
		c.Devices[""] = telemetry.DeviceCPUs{Offline: away.Len()}
	}
	return c
}
