// Package statickubelet tests cpupoold with a real kubelet whose CPU manager policy is static, on a node with a runtime that offers NRI.
// See test/vm.
package statickubelet
