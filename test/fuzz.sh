#!/usr/bin/env bash
# Fuzzes every fuzz target of the module, one after the other, each for the given time (default 20s). Of that time none is to go into making
# inputs smaller that are merely new: by default it takes up to a minute for each.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}

for dir in $(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2 | sort -u); do
    echo "== $dir $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "$dir"
  done
done
