package config

import (
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Depletion (depletion) says what becomes of a node whose shared pool has too few CPUs
// left for the pods that have no others.
type Depletion struct {
	// Action (action) is how far it goes. Default: warn.
	Action DepletionAction
	// Floor (floor) is the number of CPUs below which the pool is depleted; 0 is never.
	// Default: 1.
	Floor int
	// ClearAfter (clearAfter) is how long the pool must have had them again, 1s..24h.
	// Default: 1m.
	ClearAfter time.Duration
	// DryRun (dryRun) says what would be done beyond warn, and does not do it. Default:
	// true.
	DryRun bool
}

// Shows says that taint and condition are put on the Node.
func (d Depletion) Shows() bool { return d.Action != DepletionWarn && !d.DryRun }

// DepletionAction is what is done about a depleted shared pool.
type DepletionAction string

// Each does what those before it do: DepletionTaint puts a taint and a condition on the
// Node, and with DepletionEvict the taint says that pods may be evicted, which is not
// this program's to do.
const (
	DepletionWarn  DepletionAction = "warn"
	DepletionTaint DepletionAction = "taint"
	DepletionEvict DepletionAction = "evict"
)

func (d *decoder) depletion(key string, n *yaml.Node, c *Config) {
	to := &c.Depletion
	d.mapping(key, n, []field{
		{"action", d.scalar(func(s string) error {
			return setOneOf(&to.Action, s, DepletionWarn, DepletionTaint, DepletionEvict)
		})},
		{"floor", d.scalar(func(s string) error {
			floor, err := strconv.ParseUint(s, 10, 16)
			if err != nil || floor > cpuset.MaxCPUs {
				return fmt.Errorf("is not a number of CPUs; write 0 to %d", cpuset.MaxCPUs)
			}
			to.Floor = int(floor)
			return nil
		})},
		// A taint that comes and goes within a second moves pods about, and one that stays for a day after
		// its cause keeps a node empty.
		{"clearAfter", d.duration(&to.ClearAfter, time.Second, 24*time.Hour, "", "1m")},
		{"dryRun", d.scalar(func(s string) error { return setBool(&to.DryRun, s) })},
	})
}
