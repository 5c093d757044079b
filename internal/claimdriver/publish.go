package claimdriver

import (
	"context"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// publish publishes the devices of the node until ctx ends.
func (d *driver) publish(ctx context.Context, helper *kubeletplugin.Helper) {
	for ctx.Err() == nil {
		now, changed := d.watch.now()
		if now.claims != nil {
			var devices []resourceslice.Slice
			if now.claims.Ready {
				devices = []resourceslice.Slice{{Devices: dra.Devices(now.claims.Devices, d.numaAttributes...)}}
			}
			if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.node: {Slices: devices}}}); err != nil {
				d.count.failed("slices")
				d.log.Warn("publish devices", "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}
