package vectors_test

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// sharesCase is every kind that starts from shares. Shares of null are unset,
// which is 0 in the runtime's configuration and with us.
type sharesCase[T any] struct {
	Shares uint64
	Expect T
}

func checkWeightLinear(raw json.RawMessage) error {
	c, err := decode[sharesCase[uint64]](raw)
	if err != nil {
		return err
	}
	return compare("WeightLinear", cgroup.WeightLinear(c.Shares), c.Expect)
}

func checkWeightQuadratic(raw json.RawMessage) error {
	c, err := decode[sharesCase[uint64]](raw)
	if err != nil {
		return err
	}
	return compare("WeightQuadratic", cgroup.WeightQuadratic(c.Shares), c.Expect)
}

func checkWeightRange(raw json.RawMessage) error {
	c, err := decode[sharesCase[struct{ Min, Max *uint64 }]](raw)
	if err != nil {
		return err
	}
	lowest, highest := uint64(0), uint64(math.MaxUint64)
	if c.Expect.Min != nil {
		lowest = *c.Expect.Min
	}
	if c.Expect.Max != nil {
		highest = *c.Expect.Max
	}
	if got := cgroup.WeightQuadratic(c.Shares); got < lowest || got > highest {
		return fmt.Errorf("WeightQuadratic = %d; want %d..%d", got, lowest, highest)
	}
	return nil
}

func checkSharesFromWeight(raw json.RawMessage) error {
	c, err := decode[struct{ Weight, Expect uint64 }](raw)
	if err != nil {
		return err
	}
	return compare("SharesFromWeight", cgroup.SharesFromWeight(c.Weight), c.Expect)
}

func checkMilliToShares(raw json.RawMessage) error {
	c, err := decode[struct {
		Milli  int64
		Expect uint64
	}](raw)
	if err != nil {
		return err
	}
	return compare("MilliCPUToShares", workload.MilliCPUToShares(c.Milli), c.Expect)
}

func checkMilliToQuota(raw json.RawMessage) error {
	c, err := decode[struct{ Milli, Period, Expect int64 }](raw)
	if err != nil {
		return err
	}
	return compare("MilliCPUToQuota", cgroup.MilliCPUToQuota(c.Milli, c.Period), c.Expect)
}

// weights holds the results of a request in a container and in its pod's slice.
type weights struct {
	Shares    uint64 `json:"shares"`
	Quadratic uint64 `json:"weight_quadratic"`
	Linear    uint64 `json:"weight_linear"`
}

func checkMilliToWeights(raw json.RawMessage) error {
	c, err := decode[struct {
		Milli  int64
		Expect weights
	}](raw)
	if err != nil {
		return err
	}
	shares := workload.MilliCPUToShares(c.Milli)
	got := weights{Shares: shares, Quadratic: cgroup.WeightQuadratic(shares), Linear: cgroup.WeightLinear(shares)}
	return compare("weights", got, c.Expect)
}
