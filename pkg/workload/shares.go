package workload

// MilliCPUToShares converts a CPU request in thousandths of a CPU to the CPU
// shares, 2..262144, that the kubelet passes to the runtime for it (kubelet cm
// MilliCPUToShares). No request, and a negative one, is the minimum of 2.
func MilliCPUToShares(milli int64) uint64 {
	const (
		minShares    = 2
		maxShares    = 262144
		sharesPerCPU = 1024
		milliPerCPU  = 1000
	)
	if milli >= maxShares*milliPerCPU/sharesPerCPU {
		return maxShares
	}
	return uint64(max(max(milli, 0)*sharesPerCPU/milliPerCPU, minShares))
}
