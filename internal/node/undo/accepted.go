package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Accepted says which pools fitted which machine. When the machine comes back as
// another one, with other CPUs, or some of them offline, it tells a configuration
// that was right from one that never was: a reload adapts the former and refuses the
// latter. A daemon that starts adapts both (settings.begin).
type Accepted struct {
	// Pools is a digest of what was configured.
	Pools   string     `json:"pools"`
	Present cpuset.Set `json:"present"`
	Online  cpuset.Set `json:"online"`
}

// AcceptedOn describes pools that fit a machine.
func AcceptedOn(c *config.Config, t *topology.Topology) (Accepted, error) {
	b, err := json.Marshal(c.Pools)
	if err != nil {
		return Accepted{}, err
	}
	sum := sha256.Sum256(b)
	return Accepted{Pools: hex.EncodeToString(sum[:]), Present: t.Present, Online: t.Online}, nil
}

// OnOtherMachine says that the same pools were accepted on a machine with other CPUs.
func (a *Accepted) OnOtherMachine(now Accepted) bool {
	return a != nil && a.Pools == now.Pools && !a.Equal(now)
}

func (a *Accepted) Equal(b Accepted) bool {
	return a != nil && a.Pools == b.Pools && a.Present.Equal(b.Present) && a.Online.Equal(b.Online)
}
