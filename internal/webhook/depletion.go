package webhook

import (
	"strconv"
	"time"
)

// Depletion is what is done about pods of nodes whose shared pool is depleted.
type Depletion struct {
	// Eviction says whether pods without a CPU request are evicted from nodes that allow
	// it: off, dryRun or on. Default: off.
	Eviction Eviction `yaml:"eviction"`
	// EvictionsPerMinute bounds evictions of the whole cluster, 1..60. Default: 6.
	EvictionsPerMinute int `yaml:"evictionsPerMinute"`
	// MaxNodesPercent is how many nodes of all may be depleted at once; where there are
	// more, nobody is evicted. One may always be. 1..100. Default: 10.
	MaxNodesPercent int `yaml:"maxNodesPercent"`
	// After is how long a node must have been depleted, 0s..1h. Default: 1m.
	After time.Duration `yaml:"after"`
}

// Eviction is whether pods are evicted.
type Eviction string

// With EvictionDryRun it is said who would be evicted, at the same pace.
const (
	EvictionOff    Eviction = "off"
	EvictionDryRun Eviction = "dryRun"
	EvictionOn     Eviction = "on"
)

func defaultDepletion() Depletion {
	return Depletion{Eviction: EvictionOff, EvictionsPerMinute: 6, MaxNodesPercent: 10, After: time.Minute}
}

// check names everything that is wrong.
func (d *Depletion) check(wrong func(key, value, reason string)) {
	if d.Eviction != EvictionOff && d.Eviction != EvictionDryRun && d.Eviction != EvictionOn {
		wrong("depletion.eviction", string(d.Eviction), "write off, dryRun or on")
	}
	if d.EvictionsPerMinute < 1 || d.EvictionsPerMinute > 60 {
		wrong("depletion.evictionsPerMinute", strconv.Itoa(d.EvictionsPerMinute), "is out of range; write 1 to 60")
	}
	if d.MaxNodesPercent < 1 || d.MaxNodesPercent > 100 {
		wrong("depletion.maxNodesPercent", strconv.Itoa(d.MaxNodesPercent), "is out of range; write 1 to 100")
	}
	if d.After < 0 || d.After > time.Hour {
		wrong("depletion.after", d.After.String(), "is out of range; write 0s to 1h")
	}
}

// interval is the time between two evictions.
func (d *Depletion) interval() time.Duration {
	return time.Minute / time.Duration(d.EvictionsPerMinute)
}
