package claimdriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// healthInterval is the time between reports. The kubelet takes a device for unknown after 30 seconds.
const healthInterval = 10 * time.Second

// WatchHealthStatus reports the health of the devices until ctx ends.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	var last string
	var due bool
	for {
		now, changed := d.watch.now()
		report := d.health(now)
		if text := digest(report); due || text != last { // also an empty report shows that the driver works
			last, due = text, false
			select {
			case reports <- report:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			due = true
		case <-changed:
		}
	}
}

// digest returns the health in a report, without its time.
func digest(r kubeletplugin.DeviceHealthReport) string {
	var b strings.Builder
	for i := range r.Devices {
		fmt.Fprintf(&b, "%s %s %s\n", r.Devices[i].DeviceName, r.Devices[i].Health, r.Devices[i].Message)
	}
	return b.String()
}

// trouble counts the faults of the claims of a device.
type trouble struct {
	claims, faulty int
	away           cpuset.Set
}

// health returns the health of all devices, and of the devices of claims that have left the list. The
// message names no claim, because the users of other claims of the device see it, too.
func (d *driver) health(now node) kubeletplugin.DeviceHealthReport {
	if now.claims == nil {
		return kubeletplugin.DeviceHealthReport{}
	}
	var report kubeletplugin.DeviceHealthReport
	of := troubles(now.claims)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := of[name]
		health := kubeletplugin.DeviceHealth{PoolName: d.node, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now.answered}
		switch {
		case now.isAway():
			health.Health, health.Message = kubeletplugin.HealthStatusUnknown, "cpupoold does not answer on the node"
		case !t.away.IsEmpty():
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("CPUs %s of claims are offline or in another pool", t.away)
		case t.faulty > 0:
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("%d of %d claims have problems; cpupoold status on the node shows them", t.faulty, t.claims)
		}
		report.Devices = append(report.Devices, health)
	}
	return report
}

// troubles returns the faults by the name of the device.
func troubles(now *inspect.Claims) map[string]trouble {
	of := make(map[string]trouble)
	for i := range now.Devices {
		of[now.Devices[i].Name] = trouble{}
	}
	for i := range now.Claims {
		c := &now.Claims[i]
		counted := make(map[string]bool)
		for _, p := range c.Parts {
			t := of[p.Device]
			t.away = t.away.Union(p.CPUs.Intersection(c.Away))
			if !counted[p.Device] {
				counted[p.Device] = true
				t.claims++
				if len(c.Problems) > 0 {
					t.faulty++
				}
			}
			of[p.Device] = t
		}
	}
	return of
}
