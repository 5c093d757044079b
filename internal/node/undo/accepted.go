package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Accepted describes pools and the machine that they fitted. After a change of the machine
// a reload adapts a configuration that fitted before, and refuses any other. A daemon that
// starts adapts both.
type Accepted struct {
	// Pools is a digest of the configured pools.
	Pools   string     `json:"pools"`
	Present cpuset.Set `json:"present"`
	Online  cpuset.Set `json:"online"`
	// Auto are the CPUs of the partitions with cpus: auto, in the order of the configuration.
	// They end with the boot.
	Auto []cpuset.Set `json:"auto,omitempty"`
}

// AcceptedOn returns the description of a configuration's pools on a machine, without Auto.
func AcceptedOn(c *config.Config, t *topology.Topology) (Accepted, error) {
	b, err := json.Marshal(c.Pools)
	if err != nil {
		return Accepted{}, err
	}
	sum := sha256.Sum256(b)
	return Accepted{Pools: hex.EncodeToString(sum[:]), Present: t.Present, Online: t.Online}, nil
}

// OnOtherMachine reports whether the same pools were accepted on a machine with other CPUs.
func (a *Accepted) OnOtherMachine(now Accepted) bool {
	return a != nil && a.Pools == now.Pools && (!a.Present.Equal(now.Present) || !a.Online.Equal(now.Online))
}

// Equal reports whether all fields are the same.
func (a *Accepted) Equal(b Accepted) bool {
	return a != nil && a.Pools == b.Pools && a.Present.Equal(b.Present) && a.Online.Equal(b.Online) && slices.EqualFunc(a.Auto, b.Auto, cpuset.Set.Equal)
}
