// Package runtime is a guest test suite: what a node's image promises of its kernel, systemd, container runtime and kubelet. It runs on
// every pair of test/vm/internal/matrix.
package runtime
