// Package bench measures cpupoold on a node with real containers, for bench/results/vm.txt. It runs in the guest (build tag "guest") and
// writes its samples in the format of Go benchmarks.
package bench
