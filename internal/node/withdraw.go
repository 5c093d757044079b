package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Withdraw takes everything back that a Runner shows: the resources and the condition.
// It returns the names of the resources. A Node that is gone has nothing to take back.
func Withdraw(ctx context.Context, o Options, names workload.Names) ([]string, error) {
	c := o.client()
	if err := c.connect(); err != nil {
		return nil, err
	}
	is := new(object)
	if err := c.call(ctx, "GET", path(o.Name, ""), "", nil, is); err != nil {
		if isStatus(err, 404) {
			return nil, nil
		}
		return nil, err
	}
	ours := is.resourceChanges(is.Status.Capacity, nil, names)
	maps.Copy(ours, is.resourceChanges(is.Status.Allocatable, nil, names))
	patch := is.statusPatch(wanted{resources: map[string]int64{}}, names, time.Time{})
	if patch == nil {
		return nil, nil
	}
	if err := c.call(ctx, "PATCH", path(o.Name, "/status"), strategicPatch, patch, nil); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(ours)), nil
}
