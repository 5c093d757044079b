//go:build !amd64

package tsc

// counter returns 0: QEMU counts nanoseconds on such a host, which the guest can measure.
func counter() uint64 { return 0 }
