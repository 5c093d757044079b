#!/usr/bin/env bash
# Fuzzes every fuzz target of all modules, one after the other, each for the given time (default 20s). By default, Go makes each new input
# smaller for up to a minute. That time is limited here, because such an input is no fault.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}

for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2 | sort -u); do
    echo "== $dir $target"
    go -C "$dir" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x .
  done
done
