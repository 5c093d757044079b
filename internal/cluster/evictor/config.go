package evictor

import (
	"strconv"
	"time"
)

// Config configures the eviction of pods from nodes whose shared pool is depleted.
type Config struct {
	// Eviction selects whether pods without a CPU request are evicted from nodes that allow
	// it: off, dryRun or on. Default: off.
	Eviction Mode `yaml:"eviction"`
	// EvictionsPerMinute limits the evictions in the whole cluster, 1..60. Default: 6.
	EvictionsPerMinute int `yaml:"evictionsPerMinute"`
	// MaxNodesPercent is the part of all nodes that may be depleted at once. If more nodes
	// are depleted, no pod is evicted. One node may always be. 1..100. Default: 10.
	MaxNodesPercent int `yaml:"maxNodesPercent"`
	// After is the time for which a node must have been depleted, 0s..1h. Default: 1m.
	After time.Duration `yaml:"after"`
}

// Mode selects whether pods are evicted.
type Mode string

// Modes. With DryRun, events name the pods that On would evict, at the same pace.
const (
	Off    Mode = "off"
	DryRun Mode = "dryRun"
	On     Mode = "on"
)

// Default returns the configuration without any key.
func Default() Config {
	return Config{Eviction: Off, EvictionsPerMinute: 6, MaxNodesPercent: 10, After: time.Minute}
}

// Check calls wrong for each error, with the key in a configuration file that has the Config
// as depletion, its value, and a remedy.
func (c *Config) Check(wrong func(key, value, reason string)) {
	if c.Eviction != Off && c.Eviction != DryRun && c.Eviction != On {
		wrong("depletion.eviction", string(c.Eviction), "write off, dryRun or on")
	}
	if c.EvictionsPerMinute < 1 || c.EvictionsPerMinute > 60 {
		wrong("depletion.evictionsPerMinute", strconv.Itoa(c.EvictionsPerMinute), "is out of range; write 1 to 60")
	}
	if c.MaxNodesPercent < 1 || c.MaxNodesPercent > 100 {
		wrong("depletion.maxNodesPercent", strconv.Itoa(c.MaxNodesPercent), "is out of range; write 1 to 100")
	}
	if c.After < 0 || c.After > time.Hour {
		wrong("depletion.after", c.After.String(), "is out of range; write 0s to 1h")
	}
}

func (c *Config) interval() time.Duration {
	return time.Minute / time.Duration(c.EvictionsPerMinute)
}
