#!/usr/bin/env bash
# Measures cpupoold and writes the samples to bench/results, and docs/reference/benchmarks.md from them.
# `make bench` has built bin/cpupoold and the parts that the virtual machines need.
#
#   record.sh [PART...]   host: the benchmarks on this machine (go, compare, kubelet, topology, pods)
#                         vm: the daemon on a node in a virtual machine; an hour
#                         limits: single steps of the daemon and of the kernel, on three kernels
#                         live: the eBPF program of the live audit, on three kernels
#                         Without PART, all. The samples of the other parts stay as they are.
#
#   COUNT=10           samples of each Go benchmark
#   BENCHTIME=300ms    duration of a sample
#   ANSWERS=500x       replies for exclusive containers, and repairs, in a sample, from which the 99th percentile is taken
#   SHARED=5000x       replies for shared containers in a sample
#   MOVES=100x         replies in a sample for which 500 other containers change their CPUs before
#   REQUESTS=20000     random requests to the kubelet's code and to cpupoold
set -euo pipefail
cd "$(dirname "$0")/.."
results=bench/results
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# note KEY VALUE sets a line of meta.txt.
note() {
  awk -v key="$1" -v line="$1: $2" 'index($0, key ": ") == 1 { print line; done = 1; next } { print } END { if (!done) print line }' \
    "$results/meta.txt" >"$work/meta"
  cat "$work/meta" >"$results/meta.txt"
}

# state prints the conditions of the samples that follow.
state() {
  echo "commit $(git describe --always --dirty --exclude '*') on $(date -u +%F);" \
    "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1) with $(nproc) CPUs; $(uname -sr);" \
    "$(go env GOVERSION) $(go env GOOS)/$(go env GOARCH); load average $(cut -d' ' -f1-3 /proc/loadavg) before"
}

# sample FILE PATTERN ARGUMENTS... appends the results of Go benchmarks to $work/FILE.txt. With -p 1, no other package is
# compiled next to a benchmark.
sample() {
  local file=$1 pattern=$2
  shift 2
  go test -p 1 -run '^$' -bench "$pattern" -benchmem -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" "$@" | grep -v '^ok\|^PASS' >>"$work/$file.txt"
}

host() {
  sample go . -skip '^Benchmark(Create|Repair)$' ./pkg/pools ./pkg/cgroup ./internal/node/daemon ./internal/node/view
  sample go 'Look/^1000$' ./internal/node/audit
  sample go '^BenchmarkCreate$/^shared$' -benchtime "${SHARED:-5000x}" -timeout 60m ./internal/node/daemon
  sample go '^Benchmark(Create|Repair)$' -skip '/shared$/' -benchtime "${ANSWERS:-500x}" -timeout 60m ./internal/node/daemon
  sample go '^BenchmarkCreate$/^own-from-shared$/^500containers$' -benchtime "${MOVES:-100x}" -timeout 60m ./internal/node/daemon
  sample go 'Analyse/^256cpus$' ./pkg/defrag
  sample go 'Plan/^fresh$/^5000$' ./internal/plugin/size
  sample go Import ./internal/plugin/migrate
  sample topology 'Read$' ./pkg/topology
  sample pods . ./internal/admission ./internal/cluster/review
  (cd bench && sample compare . -benchtime 100ms .)
  # The choices first: benchmarks of worse choices are useless. The first build of the kubelet's code takes minutes.
  go -C bench/kubelet test -v -timeout 60m -requests "${REQUESTS:-20000}" . | tee "$work/choices.log" >&2
  (cd bench/kubelet && sample kubelet . .)
  note binary "$(stat -c %s bin/cpupoold) bytes (bin/cpupoold, static, stripped)"
  note kubelet "k8s.io/kubernetes $(go -C bench/kubelet list -m -f '{{.Version}}' k8s.io/kubernetes)"
  note dra-driver-cpu "$(go -C bench/kubelet list -m github.com/kubernetes-sigs/dra-driver-cpu)"
  note cpuset "$(go -C bench list -m k8s.io/utils)"
  note choices "$(sed -n 's/^.*never_worse_test.go:[0-9]*: \([0-9]* requests.*\)/\1/p' "$work/choices.log")"
}

# guest PART TEST takes the samples of a test in virtual machines.
guest() {
  go test -tags vm,bench -count 1 -timeout 150m -run "^$2\$" ./test/vm -samples="$work/$1.txt" >&2
}

# live takes samples on bare kernels, from which no file can be copied: their log has the samples.
live() {
  go test -v -tags vm,bench -count 1 -timeout 150m -run '^TestLiveSwitch$' ./test/vm | tee "$work/live.log" >&2
  sed -n 's/^ *switch_test.go:[0-9]*: \(Benchmark.*\)/\1/p' "$work/live.log" >"$work/live.txt"
  guest live TestLiveMemory
}

[ $# -gt 0 ] || set -- host vm limits live
for part; do
  before=$(state)
  case $part in
  host) host ;;
  vm) guest vm 'Test(Bench|Row)' ;;
  limits) guest limits TestLimits ;;
  live) live ;;
  *) echo "record.sh: $part is not host, vm, limits or live" >&2 && exit 2 ;;
  esac
  note "$part" "$before and $(cut -d' ' -f1-3 /proc/loadavg) after"
  mv "$work"/*.txt "$results/"
done
go -C bench run ./cmd/page results ..
