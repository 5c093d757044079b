#!/usr/bin/env bash
# Measures cpupoold and writes the record: docs/benchmarks.md. `make bench-all` has made bin/cpupoold and what the VM needs.
#
#   VM_SAMPLES=FILE    samples of TestBench, and of TestLimits where they are to be in the record, that have been taken before, in place of taking them
#   VM_COMMIT=REV      the commit of these
#   COUNT=10           samples of each Go benchmark
#   BENCHTIME=300ms    how long each takes
#   ANSWERS=500x       how many answers and repairs are in a sample, of which the 99th percentile is taken
#   REQUESTS=20000     random requests to the kubelet's code and to ours
#   BENCH_VM=no        leave out what needs the VM, an hour
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
before=$(cut -d' ' -f1-3 /proc/loadavg)
go test -run '^$' -bench . -skip '^Benchmark(Create|Repair)$' -benchmem -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" \
  ./pkg/pools ./pkg/cgroup ./internal/node/daemon ./internal/node/view | grep -v '^ok\|^PASS' >"$work/go.txt"
go test -run '^$' -bench 'Look/^1000$' -benchmem -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" ./internal/node/audit | grep -v '^ok\|^PASS' >>"$work/go.txt"
go test -run '^$' -bench '^Benchmark(Create|Repair)$' -benchmem -benchtime "${ANSWERS:-500x}" -count "${COUNT:-10}" -timeout 60m \
  ./internal/node/daemon | grep -v '^ok\|^PASS' >>"$work/go.txt"
go test -run '^$' -bench FlagError -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" ./cmd/cpupoold | grep -v '^ok\|^PASS' >"$work/flag.txt"
go test -run '^$' -bench . -benchmem -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" ./internal/admission ./internal/cluster/review | grep -v '^ok\|^PASS' >"$work/pods.txt"
go -C bench test -run '^$' -bench . -benchmem -benchtime 100ms -count "${COUNT:-10}" . | grep -v '^ok\|^PASS' >"$work/compare.txt"
# Compiling the kubelet's code takes minutes the first time. Choices first: a benchmark of worse ones would be worth nothing.
go -C bench/kubelet test -v -timeout 60m -requests "${REQUESTS:-20000}" . | tee "$work/choices.log" >&2
go -C bench/kubelet test -run '^$' -bench . -benchmem -benchtime "${BENCHTIME:-300ms}" -count "${COUNT:-10}" . | grep -v '^ok\|^PASS' >"$work/kubelet.txt"
if [ -n "${VM_SAMPLES:-}" ]; then
  cp "$VM_SAMPLES" "$work/vm.txt"
elif [ "${BENCH_VM:-yes}" = yes ]; then
  go test -tags vm,bench -count 1 -timeout 150m -run '^Test(Bench|Limits)$' ./test/vm -samples="$work/vm.txt" >&2
fi
after=$(cut -d' ' -f1-3 /proc/loadavg)

# values FILE BENCHMARK UNIT: all samples of the benchmark in that unit, sorted.
values() {
  awk -v name="$2" -v unit="$3" '{ sub(/-[0-9]+$/, "", $1) } $1 == name { for (i = 3; i < NF; i += 2) if ($(i + 1) == unit) print $i }' "$1" |
    sort -g
}

# summary: the median and the least of sorted values, of which there must be one.
summary() { awk '{ v[NR] = $1 } END { if (!NR) exit 1; print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2, v[1] }'; }

# row TEXT BAR UNIT SCALE: a row of the table of bars for the summary on stdin, times SCALE. The value must be below BAR, or
# where that is "at least N" no less than N.
row() {
  awk -v text="$1" -v bar="$2" -v unit="$3" -v scale="$4" '{
    least = sub(/^at least /, "", bar) ? bar : 0
    met = least ? $1 * scale >= least + 0 : $1 * scale < bar + 0
    verdict = bar == "none" ? "" : met ? "met" : "MISSED"
    if (least) bar = "at least " bar
    printf "| %s | %s | %.3g %s | %.3g %s | %s |\n", text, bar == "none" ? "" : bar " " unit, $1 * scale, unit, $2 * scale, unit, verdict
  }
  END { if (!NR) print "| " text " | | | | NO SAMPLES |" }'
}

# rest THREADS: CPU at rest as a part of a core, with so many threads in each cgroup: see the text below.
rest() {
  for name in Idle "Sweep/$1threads" Look/1000/home; do
    values "$work/go.txt" "Benchmark$name" cpu-ns/op | summary
  done | paste -sd' ' | awk 'NF == 6 { for (i = 1; i <= 2; i++) print ($i + 2 * $(i + 2)) / 60e9 + $(i + 4) / 300e9 }' | paste -sd' '
}

# times_ours SIZE: how many times as long as ours the kubelet takes, by the medians and by the least.
times_ours() {
  paste -d' ' <(values "$work/kubelet.txt" "BenchmarkTake/$1/kubelet" ns/op | summary) \
    <(values "$work/kubelet.txt" "BenchmarkTake/$1/cpupoold" ns/op | summary) |
    awk '{ print $1 / $3, $2 / $4 }'
}

# thousands BENCHMARK: how often a core does it in a second, in thousands.
thousands() { values "$work/pods.txt" "$1" cpu-ns/op | summary | awk '{ print 1e6 / $1, 1e6 / $2 }'; }

# times_coding: how many times as long as decoding and encoding a review the whole of it takes.
times_coding() {
  paste -d' ' <(values "$work/pods.txt" BenchmarkReview/whole cpu-ns/op | summary) <(values "$work/pods.txt" BenchmarkReview/coding cpu-ns/op | summary) |
    awk '{ print $1 / $3, $2 / $4 }'
}

bars() {
  local plan=BenchmarkBuild/1024cpu/500containers run
  echo '| | bar | median | least | |'
  echo '|---|---|---|---|---|'
  values "$work/go.txt" $plan/unchanged ns/op | summary | row 'plan, 1,024 CPUs and 500 containers, nothing changed' 20 µs 1e-3
  values "$work/go.txt" $plan/unchanged allocs/op | summary | row 'its allocations' 1 '' 1
  values "$work/go.txt" $plan/cold ns/op | summary | row 'the same, made in full' 300 µs 1e-3
  values "$work/go.txt" BenchmarkRepair/500containers p99-ns | summary | row 'from a write of somebody else to its repair, 500 containers, p99' 500 µs 1e-3
  values "$work/go.txt" BenchmarkCreate/shared/500containers p99-ns | summary | row 'answer to the runtime, 500 containers, shared pool, p99' 1 ms 1e-6
  values "$work/go.txt" BenchmarkCreate/own/500containers p99-ns | summary | row 'answer to the runtime, 500 containers, CPUs of its own, p99' 1 ms 1e-6
  values "$work/go.txt" BenchmarkCreate/own/500containers p50-ns | summary | row 'the same in the median of each sample' none ms 1e-6
  values "$work/go.txt" BenchmarkPass/500containers/pass ns/op | summary | row 'a whole pass over 500 containers, nothing to write' none µs 1e-3
  values "$work/go.txt" BenchmarkStart cpu-ns/op | summary | row 'cold start on 500 containers to verified, CPU time, the fake runtime included' 300 ms 1e-6
  values "$work/flag.txt" BenchmarkFlagError ns/op | summary | row 'start to an error about a flag' 30 ms 1e-6
  values "$work/go.txt" BenchmarkBuildExclusive/list ns/op | summary | row 'a plan of 500 containers that are all new and exclusive' 2 ms 1e-6
  rest 1 | row 'CPU at rest, 250 containers, on the CPU above: (Idle + 2 x Sweep) / 60 s + Look / 300 s' 0.05 % 100
  rest 10 | row 'the same with ten threads in each cgroup' none % 100
  values "$work/kubelet.txt" BenchmarkTake/8of1024/cpupoold ns/op | summary | row 'allocation of 8 of 1,024 CPUs in 8 NUMA nodes, half taken' 30 µs 1e-3
  times_ours 8of1024 | row 'the same by the kubelet' 'at least 500' times 1
  values "$work/kubelet.txt" BenchmarkTake/8of64/cpupoold ns/op | summary | row 'allocation of 8 of 64 CPUs, half taken' 5 µs 1e-3
  times_ours 8of64 | row 'the same by the kubelet' 'at least 25' times 1
  for pod in management shared guaranteed again; do
    thousands BenchmarkMutate/$pod | row "decoded pods rewritten by a core, $pod" 'at least 20' 'thousand/s' 1
  done
  times_coding | row 'a whole review, by its decoding and encoding' 2 times 1
  [ -e "$work/vm.txt" ] || return 0
  for run in placed restarted; do
    values "$work/vm.txt" BenchmarkRest/$run RssAnon-B | summary | row "RssAnon at rest, 250 containers, $run" 20 MiB 9.5367e-7
    values "$work/vm.txt" BenchmarkRest/$run cpu-ns | summary | row "CPU at rest, 250 containers, $run, emulated" none % 5.5556e-10
  done
  values "$work/vm.txt" BenchmarkPlacement started-ns | summary | row 'start of a container to verified on its CPU, emulated' none ms 1e-6
}

# scale: events and passes by the containers that are there, and a plan by CPUs and NUMA nodes.
scale() {
  local n
  ms() { values "$work/go.txt" "$1" "$2" | summary | awk '{ printf "%.3g ms", $1 / 1e6 }'; }
  echo '| containers | answer about one that shares, p50 | p99 | repair of a write, p50 | p99 | answer about one with CPUs of its own, p50 | whole pass | publish |'
  echo '|---|---|---|---|---|---|---|---|'
  for n in 16 100 500 1000; do
    printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' $n "$(ms BenchmarkCreate/shared/${n}containers p50-ns)" "$(ms BenchmarkCreate/shared/${n}containers p99-ns)" \
      "$(ms BenchmarkRepair/${n}containers p50-ns)" "$(ms BenchmarkRepair/${n}containers p99-ns)" "$(ms BenchmarkCreate/own/${n}containers p50-ns)" \
      "$(ms BenchmarkPass/${n}containers/pass ns/op)" "$(ms BenchmarkPass/${n}containers/publish ns/op)"
  done
  echo
  echo '| CPUs | NUMA nodes | plan of 250 containers, a third with CPUs of their own |'
  echo '|---|---|---|'
  for shape in 8cpu/1node 64cpu/2nodes 256cpu/4nodes 1024cpu/8nodes 2048cpu/16nodes; do
    printf '| %s | %s | %s |\n' "${shape%%cpu*}" "$(sed 's/.*\///; s/nodes\{0,1\}//' <<<"$shape")" \
      "$(values "$work/go.txt" "BenchmarkBuildScale/$shape" ns/op | summary | awk '{ printf "%.3g µs", $1 / 1e3 }')"
  done
}

# subjects KIND: the kernels (linux), or versions of systemd, that there are samples of.
subjects() { sed -n "s|^BenchmarkLimit/\($1[0-9.]*\)/.*|\1|p" "$work/vm.txt" | sort -uV; }

# limit SUBJECT NAME: the least that there is, and what the daemon takes for the same, where it does. Of each the best sample: what else the
# host does only adds to it.
limit() {
  local least ours
  least=$(values "$work/vm.txt" "BenchmarkLimit/$1/$2" ns/op | summary) || return 0
  ours=$(values "$work/vm.txt" "BenchmarkLimit/$1/$2" ours-ns/op | summary) || ours=
  awk -v least="${least#* }" -v ours="${ours#* }" '
    function times(r) { return sprintf(r < 100 ? "%.2g" : "%.0f", r) }
    function time(ns) { return ns < 1e6 ? sprintf("%.3g µs", ns / 1e3) : sprintf("%.3g ms", ns / 1e6) }
    BEGIN { printf "%s%s", time(least), ours == "" ? "" : sprintf("; %s, %s times", time(ours), times(ours / least)) }'
}

# ratio SUBJECT NAME OTHER: how many times as long as OTHER it takes at the least.
ratio() {
  paste -d' ' <(values "$work/vm.txt" "BenchmarkLimit/$1/$2" ns/op | summary) <(values "$work/vm.txt" "BenchmarkLimit/$1/$3" ns/op | summary) |
    awk '$4 { r = $2 / $4; printf r < 100 ? "%.3g" : "%.0f", r }'
}

# limits_of KIND HEADING: a table of the limits whose names and texts are on stdin, a column for each subject.
limits_of() {
  local name text subject all
  mapfile -t all < <(subjects "$1")
  printf '| %s ' "$2" "${all[@]}"
  printf '|\n|---|'
  printf -- '---|%.0s' "${all[@]}"
  echo
  while IFS=: read -r name text; do
    printf '| %s |' "$text"
    for subject in "${all[@]}"; do
      printf ' %s |' "$(case $name in *,*) ratio "$subject" "${name%,*}" "${name#*,}" ;; *) limit "$subject" "$name" ;; esac)"
    done
    echo
  done
}

limits() {
  limits_of linux kernel <<'TXT'
nothing:a system call that does nothing
write/process:a write to `cpuset.cpus`, one process moves
write/process/opened:the same, the file is opened first
write/100threads:a write, a hundred threads move
write/unchanged:a write of what is there already
read/effective:a read of `cpuset.cpus.effective`
read/effective/opened:the same, the file is opened first
read/cgroup:a read of the nine files of a cgroup that the daemon reads
read/cgroup/opened:the same, each is opened first
placed:one process moves, and a read says so (the daemon reads all nine)
partition/root/begins:a `root` partition begins, one write
partition/root/ends:it ends
partition/isolated/begins:an `isolated` partition begins, one write
partition/isolated/ends:it ends
owner/root/begins:all writes of an owner in a `root` partition
owner/root/ends:it leaves
owner/isolated/begins:all writes of an owner in an `isolated` partition
owner/isolated/ends:it leaves
partition/root/begins,write/process:a `root` partition begins, in writes of one process
partition/isolated/begins,write/process:an `isolated` one
partition/isolated/ends,write/process:an `isolated` one ends
TXT
  echo
  limits_of systemd systemd <<'TXT'
nothing:a call that does nothing
set:a call that sets `AllowedCPUs` of a unit
written:the same, until the kernel has it
read:a call that reads it; all that the daemon reads of a unit
set,nothing:a call that sets, in calls that do nothing
TXT
  echo
  limits_of containerd runtime <<'TXT'
nothing:a call that does nothing
update:an update of a container's CPUs
update,nothing:an update, in calls that do nothing
TXT
}

# events: what an event takes in the VM, by the containers that it does not concern.
events() {
  local n
  of() { values "$work/vm.txt" "BenchmarkEvent/$n/$1" "$2" | summary | awk -v scale="${3:-1}" -v unit="${4:-}" '{ printf "%.4g%s", $1 * scale, unit }'; }
  ms() { of "$1" "$2" 1e-6 ' ms'; }
  calls() { echo "$(of "$1" reads), $(of "$1" writes)"; }
  echo '| containers | one that shares: created | verified | calls | one with CPUs of its own: created | verified | calls | write of somebody else: repaired | calls |'
  echo '|---|---|---|---|---|---|---|---|---|'
  for n in 16containers 100containers 250containers; do
    printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "${n%containers}" "$(ms shared create-ns)" "$(ms shared mkdir-ns)" "$(calls shared)" \
      "$(ms own create-ns)" "$(ms own mkdir-ns)" "$(calls own)" "$(ms repair repair-ns)" "$(calls repair)"
  done
}

table() { # of the benchmarks whose results are in a file
  echo '```'
  go tool -modfile=bench/go.mod benchstat "median=$1" | grep -v '^$\|geomean' | sed 's/ *$//'
  echo '```'
}

document() {
  cat <<TXT
# Benchmarks

Made by \`make bench-all\`; not edited by hand.

| | |
|---|---|
| date | $(date -u +%F) |
| commit | $(git describe --always --dirty --exclude '*' -- 2>/dev/null || git rev-parse --short HEAD)${VM_COMMIT:+; what was measured in the VM: $VM_COMMIT} |
| CPU | $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), $(nproc) usable |
| kernel | $(uname -sr) |
| Go | $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH) |
| load average (1, 5, 15 min) | before: $before; after: $after |
| static binary, stripped (\`make build\`) | $(stat -c %s bin/cpupoold) bytes |

$(bars)

Other work on the machine lengthens all times, and work of its neighbours on the same cores CPU times, too: mind the load average, and
"least", which is the best of the samples.

## Plan, diff, one pass

\`Build\` is the plan of a whole node, \`Allocate\` a single allocation out of 512 free CPUs, \`Diff\` the comparison of 500 containers with
the plan. \`Resync\` is what the daemon does at rest, every 30 s, on a fake node with 250 containers in 125 pods: CPU time of the
process, the fake runtime's lists being another's. There its cgroups are as they were read before; \`Sweep\` is what a resync costs on top for all of them, from plain
files: those of the containers, their pause containers, and 25 pods. One in eight is read as a whole (\`Read\`, as at a start), of the others
what the kernel changes without a notice, and each thread of the containers is asked for where it may run. \`Idle\` is two resyncs, after the second of which garbage is collected and memory given back: 60 s at rest; what lives in the
fake cgroups is marked with the daemon's. \`Look\` is the audit's, once in five minutes, at 1,000 tasks: on files on a disk, and the
question about each of them is put to the kernel.

$(table "$work/go.txt")

## How it grows

$(scale)

## Side by side

Medians of one run on the same input. "times" is how often the other would fit into ours: above 1, ours is faster. Allocations: ours, theirs.
For \`Topology\` ours reads caches, dies and NUMA nodes besides, and checks that they agree. \`coding\` is the least that any webhook can do.

$(go -C bench run ./cmd/ratios "$work/kubelet.txt" "$work/compare.txt" "$work/pods.txt")

## Against the kubelet

\`bench/kubelet\` runs the kubelet's own code, k8s.io/kubernetes $(go -C bench/kubelet list -m -f '{{.Version}}' k8s.io/kubernetes), in the same process: its static CPU manager policy with its
state in memory, without logs. \`Take\` is one allocation of 8 CPUs on the same machine, of which every other core is taken: 1,024 CPUs
in 2 sockets and 8 NUMA nodes, and 64 in 2 sockets; two threads in each core. Ours counts what is free anew each time, as a pass does.

Both are also given random requests on random machines in random states, with random options. Ours must never be worse
(test/vectors/MAP.md says what that means). This time:

> $(sed -n 's/^.*never_worse_test.go:[0-9]*: \([0-9]* requests.*\)/\1/p' "$work/choices.log")

$(table "$work/kubelet.txt")

## Pods that are made

\`Mutate\` is what admission decides of one decoded pod: one of a workload type with an init container and two others (\`management\`), the
same without the type (\`shared\`), a Guaranteed one of two containers, and one that has been rewritten before (\`again\`). \`Review\` is a
request as an API server sends it: \`whole\` from its bytes to those of the answer, \`coding\` only its decoding and the encoding of the same answer.

$(table "$work/pods.txt")

TXT
  [ -e "$work/vm.txt" ] && cat <<TXT
## On a node

A virtual machine of 8 CPUs with systemd and containerd (test/vm). **Its CPUs are emulated by the ones above, 10 to 50 times
slower; time in which the host does something else counts as theirs.** Memory is as on any machine.

\`Placement\`: a container that asks for one whole CPU is made and started over CRI. mkdir: from the creation of its cgroup until the kernel
says that it is effective on a guaranteed CPU, which is looked at every 2 ms; most of it is the OCI runtime's own work. started: until
then from the moment that the runtime records as the container's start; negative when it was there before.

\`Rest\`: 250 containers in 125 pods; \`placed\` is the daemon that has placed them, \`restarted\` one that was started on them. A minute
after its last work, 180 s long: the most RssAnon that was seen, CPU time of the unit's cgroup, passes, voluntary context switches of all threads.
One thing wakes the daemon's loop at rest: the resync. It asks the runtime, and takes the answer over in a pass that looks at all cgroups. It is the
sign of life for /healthz and systemd's watchdog as well.

$(grep -v '^Benchmark\(Limit\|Event\)/' "$work/vm.txt" >"$work/node"; table "$work/node")

\`Event\`: one container begins and ends, or somebody writes to one, while there are so many that it does not concern; medians of
$(values "$work/vm.txt" BenchmarkEvent/16containers/repair reads | wc -l). created: the runtime's answer to CreateContainer, for which it asks the daemon; verified: from the creation of its cgroup, most of it the OCI
runtime's own work; calls: reads and writes of the daemon until all is quiet again, system calls, which are as many on any machine.

$(events)

TXT
  [ -e "$work/vm.txt" ] && grep -q '^BenchmarkLimit/' "$work/vm.txt" && cat <<TXT
## The least that there is

Each step by itself, on emulated CPUs: look at ratios. The first figure is the bare system call on a file that is open, or the bare call of systemd or
the runtime; the second what the daemon takes for the same, which opens the file each time, decides and verifies. The best of 30 samples each.
6.1 has no partitions that could be used.

$(limits)

TXT
  cat bench/witnesses.md bench/disturbance.md
  echo '## Samples'
  echo
  echo '```'
  cat "$work"/*.txt
  echo '```'
}

document >"$work/benchmarks.md"
mv "$work/benchmarks.md" docs/benchmarks.md
