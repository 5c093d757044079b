package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// withdrawals is how often what has changed under Withdraw's hands is tried again.
const withdrawals = 5

// Withdraw takes everything back that a Runner shows: the resources, the conditions, the
// taint of depletion and, where there is one, the NodeResourceTopology. It returns the
// names of the resources. A Node that is gone has nothing to take back.
func Withdraw(ctx context.Context, o Options, names workload.Names) ([]string, error) {
	c := o.client()
	if err := c.connect(); err != nil {
		return nil, err
	}
	var topology error // keeps nothing else from being taken back
	if o.Topology {
		topology = c.deleteTopology(ctx, o.Name)
	}
	withdrawn := make(map[string]bool)
	for tries := 1; ; tries++ {
		switch err := withdraw(ctx, &c, o.Name, names, withdrawn); {
		case err == nil || isStatus(err, 404):
			return slices.Sorted(maps.Keys(withdrawn)), topology
		case !isStatus(err, 409) || tries == withdrawals:
			return slices.Sorted(maps.Keys(withdrawn)), errors.Join(topology, err)
		}
	}
}

// withdraw tries it once, and notes the resources that are gone.
func withdraw(ctx context.Context, c *client, name string, names workload.Names, withdrawn map[string]bool) error {
	is := new(object)
	if err := c.call(ctx, "GET", path(name, ""), "", nil, is); err != nil {
		return err
	}
	ours := is.resourceChanges(is.Status.Capacity, nil, names)
	maps.Copy(ours, is.resourceChanges(is.Status.Allocatable, nil, names))
	if patch := is.statusPatch(wanted{resources: map[string]int64{}}, names, time.Time{}); patch != nil {
		is = new(object)
		if err := c.call(ctx, "PATCH", path(name, "/status"), strategicPatch, patch, is); err != nil {
			return err
		}
	}
	for resource := range ours {
		withdrawn[resource] = true
	}
	patch := is.depletedPatch(nil)
	if patch == nil {
		return nil
	}
	if err := c.call(ctx, "PATCH", path(name, ""), mergePatch, patch, nil); err != nil {
		return fmt.Errorf("remove taint %s: %w", workload.DepletedTaint, err)
	}
	return nil
}
