#!/usr/bin/env bash
# Runs the benchmarks whose allocations `make bench-check` holds against bench/record.txt: few iterations, since these do not vary with them.
# Instructions would say more; the machines that this was made on count none (perf_event_open: not supported).
set -euo pipefail
cd "$(dirname "$0")/.."
run() { go test -run '^$' -benchmem -benchtime 20x -count 3 "$@" | grep '^Benchmark\|^pkg:'; }
run -bench . ./pkg/allocate ./pkg/cgroup ./pkg/cpuset ./pkg/pools ./pkg/topology
run -bench . ./internal/admission ./internal/review
(cd bench && run -bench 'CPUSet/.*/.*/cpupoold' . && run -bench 'Topology/.*/cpupoold' .)
