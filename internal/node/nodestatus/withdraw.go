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

// maxConflicts is the maximum number of attempts while the Node changes.
const maxConflicts = 5

// Withdraw removes everything that a Runner publishes: the resources, the conditions, the
// depletion taint and, with Options.Topology, the NodeResourceTopology object. It returns the
// names of the removed resources. A missing Node is no error.
func Withdraw(ctx context.Context, o Options, names workload.Names) ([]string, error) {
	c := o.client()
	if err := c.connect(); err != nil {
		return nil, err
	}
	var topology error // does not stop the removal of the others
	if o.Topology {
		topology = c.deleteTopology(ctx, o.Name)
	}
	withdrawn := make(map[string]bool)
	for tries := 1; ; tries++ {
		switch err := withdrawOnce(ctx, &c, o.Name, names, withdrawn); {
		case err == nil || isStatus(err, 404):
			return slices.Sorted(maps.Keys(withdrawn)), topology
		case !isStatus(err, 409) || tries == maxConflicts:
			return slices.Sorted(maps.Keys(withdrawn)), errors.Join(topology, err)
		}
	}
}

// withdrawOnce makes one attempt. It adds the removed resources to withdrawn.
func withdrawOnce(ctx context.Context, c *client, name string, names workload.Names, withdrawn map[string]bool) error {
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
	patch := is.depletionTaintPatch(nil)
	if patch == nil {
		return nil
	}
	if err := c.call(ctx, "PATCH", path(name, ""), mergePatch, patch, nil); err != nil {
		return fmt.Errorf("remove taint %s: %w", workload.DepletedTaint, err)
	}
	return nil
}
