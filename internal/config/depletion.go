package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Depletion (depletion) selects the reaction if the shared pool has too few CPUs for the pods
// that run on it.
type Depletion struct {
	// Action (action) is the reaction. Default: warn.
	Action DepletionAction
	// Floor (floor) is the number of CPUs below which the pool is depleted; with 0 it never is.
	// Default: 1.
	Floor int
	// ClearAfter (clearAfter) is the time for which the pool must have Floor CPUs again, 1s..24h.
	// Default: 1m.
	ClearAfter time.Duration
	// DryRun (dryRun) reports reactions beyond warn, and does not make them. Default:
	// true.
	DryRun bool
}

// Shows reports whether the Node gets taint and condition.
func (d Depletion) Shows() bool { return d.Action != DepletionWarn && !d.DryRun }

// DepletionAction is the reaction to a depleted shared pool.
type DepletionAction string

// Each includes the reactions before it. DepletionTaint sets a taint and a condition on the
// Node. With DepletionEvict the taint allows the webhook to evict pods; the daemon evicts none.
const (
	DepletionWarn  DepletionAction = "warn"
	DepletionTaint DepletionAction = "taint"
	DepletionEvict DepletionAction = "evict"
)

func (d *decoder) depletion(key string, n *yaml.Node, c *Config) {
	to := &c.Depletion
	d.mapping(key, n, []field{
		{"action", oneOf(d, &to.Action, DepletionWarn, DepletionTaint, DepletionEvict)},
		{"floor", d.scalar(func(s string) error {
			return setNumber(&to.Floor, s, 0, cpuset.MaxCPUs, fmt.Sprintf("is not a number of CPUs; write 0 to %d", cpuset.MaxCPUs))
		})},
		// A taint that changes within a second moves pods back and forth. A taint that stays for more than a
		// day after its cause keeps a node empty.
		{"clearAfter", d.duration(&to.ClearAfter, time.Second, 24*time.Hour, "", "1m")},
		{"dryRun", boolean(d, &to.DryRun)},
	})
}
