// Package latency tests the measurement with the tracers osnoise and timerlat. It needs a kernel that has them, such as
// linux-image-rt-amd64 of Debian.
package latency
