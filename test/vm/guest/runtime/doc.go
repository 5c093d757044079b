// Package runtime is a guest test suite. It checks the kernel, systemd, container runtime and kubelet of a node's image. It runs on
// every pair of test/vm/internal/matrix.
package runtime
