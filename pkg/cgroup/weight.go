package cgroup

import (
	"math"

	"github.com/opencontainers/cgroups"
)

// Limits of cgroup v1 cpu.shares and of cgroup v2 cpu.weight
// (Documentation/admin-guide/cgroup-v2.rst, "Weights"). Every conversion maps the
// one interval onto the other.
const (
	minShares = 2
	maxShares = 262144
	minWeight = 1
	maxWeight = 10000
)

// minQuota is the shortest quota the kernel accepts in cpu.max, in microseconds
// (kernel/sched/core.c min_cfs_quota_period).
const minQuota = 1000

// WeightLinear converts CPU shares to the cpu.weight (1..10000) that the kubelet
// gives to pod and QoS slices (KEP-2254; kubelet cm getCPUWeight). It is a straight line from
// 2 shares to 262144. runc up to 1.3.1 and crun up to 1.22 use it for containers. Shares outside
// are clamped; 0 means unset and stays 0.
func WeightLinear(shares uint64) uint64 {
	if shares == 0 {
		return 0
	}
	shares = min(max(shares, minShares), maxShares)
	return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
}

// WeightQuadratic converts CPU shares to the cpu.weight (1..10000) that runc from
// 1.3.2 and crun from 1.23 give to containers. On its curve 1024 shares are
// the default weight of 100. Shares outside 2..262144 are clamped; 0 means unset
// and stays 0.
//
// On one node the two scales meet: compare weights of siblings only.
func WeightQuadratic(shares uint64) uint64 {
	return cgroups.ConvertCPUSharesToCgroupV2Value(shares)
}

// SharesFromWeight is the kubelet's inverse of [WeightLinear], which is how it
// reads cpu.weight (1..10000) back. Both round down, so a round trip may lose up to
// 26 shares. Weights above 10000 are clamped; 0, which no cgroup has but an idle
// one, is 0.
func SharesFromWeight(weight uint64) uint64 {
	if weight == 0 {
		return 0
	}
	weight = min(weight, maxWeight)
	return minShares + (weight-minWeight)*(maxShares-minShares)/(maxWeight-minWeight)
}

// MilliCPUToQuota converts a CPU limit in thousandths of a CPU to the quota in
// microseconds for a period in microseconds, as the kubelet does. The result is at least 1000,
// or 0 without a limit. If milli*period does not fit an
// int64 the quota is math.MaxInt64/1000.
func MilliCPUToQuota(milli, period int64) int64 {
	if milli <= 0 {
		return 0
	}
	if period > math.MaxInt64/milli {
		return math.MaxInt64 / 1000
	}
	return max(milli*period/1000, minQuota)
}
