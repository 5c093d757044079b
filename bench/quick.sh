#!/usr/bin/env bash
# Runs the benchmarks whose allocations and instructions `make bench-check` compares with bench/record.txt. Allocations do not
# vary with the number of iterations, so few are enough. valgrind counts the instructions of some benchmarks (bench/cmd/instructions),
# since not every machine allows perf_event_open to count them. The record has the instructions of amd64.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOAMD64=v1
bins=$(mktemp -d)
trap 'rm -rf "$bins"' EXIT

packages=(pkg/allocate pkg/cgroup pkg/cpuset pkg/pools pkg/topology internal/admission internal/cluster/review)
go test -c -o "$bins/" "${packages[@]/#/./}" ./internal/node/{appcpus,audit,daemon} ./internal/plugin/size ./pkg/cri
go -C bench test -c -o "$bins/bench.test" .

# run PACKAGE PATTERN [MEM]: as go test does, in the package's directory.
run() {
  (cd "$1" && "$bins/${1##*/}.test" -test.run '^$' -test.bench "$2" "-test.benchmem=${3-true}" -test.benchtime 20x -test.count 3) |
    grep '^Benchmark\|^pkg:'
}
for package in "${packages[@]}"; do run "$package" .; done
run internal/node/audit 'Look/^1000$'
# Hostile pods: a large environment, files in a mount, large annotations, and very many threads and cgroups.
run pkg/cri LargeStatus
run internal/node/appcpus Hostile
run internal/node/daemon Annotations
run internal/node/daemon Crowd false # a scan of the threads by another goroutine allocates in some of the runs
run internal/plugin/size 'Plan/.*/^300$'
run bench 'CPUSet/.*/.*/cpupoold'
run bench 'Topology/.*/cpupoold'

if [ "$(go env GOARCH)" = amd64 ]; then
  go -C bench build -o "$bins/instructions" ./cmd/instructions
  "$bins/instructions" "$bins" .
fi
