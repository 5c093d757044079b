package claimdriver

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	var last []kubeletplugin.DeviceHealth
	var due bool
	for {
		now, changed := d.watch.now()
		devices := d.health(now)
		if due || !slices.Equal(devices, last) { // also an empty report shows that the driver works
			last, due = slices.Clone(devices), false
			for i := range devices {
				devices[i].LastUpdated = now.answered
			}
			select {
			case reports <- kubeletplugin.DeviceHealthReport{Devices: devices}:
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

// trouble counts the faults of the claims of a device.
type trouble struct {
	claims, faulty int
	away           cpuset.Set
}

// health returns the health of all devices, and of the devices of claims that have left the list, without times. The
// message names no claim, because the users of other claims of the device see it, too.
func (d *driver) health(now node) (all []kubeletplugin.DeviceHealth) {
	if now.claims == nil {
		return nil
	}
	of := troubles(now.claims)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := of[name]
		health := kubeletplugin.DeviceHealth{PoolName: d.Node, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy}
		switch {
		case now.isAway():
			health.Health, health.Message = kubeletplugin.HealthStatusUnknown, "cpupoold does not answer on the node"
		case !t.away.IsEmpty():
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("CPUs %s of claims are offline or in another pool", t.away)
		case t.faulty > 0:
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, fmt.Sprintf("%d of %d claims have problems; cpupoold status on the node shows them", t.faulty, t.claims)
		}
		all = append(all, health)
	}
	return all
}

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
