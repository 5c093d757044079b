#!/bin/sh
# Builds the eBPF program: `make bpf`. SUMS holds the hashes of sources and objects, for TestObjects.
set -eu
cd "$(dirname "$0")/.."
GOPACKAGE=schedwatch go run github.com/cilium/ebpf/cmd/bpf2go -go-package schedwatch -cc clang -strip llvm-strip -target bpfel \
  -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror" -type cpu -type owner -type key -type row watch bpf/watch.c
sha256sum bpf/*.c bpf/*.h watch_bpfel.go watch_bpfel.o >bpf/SUMS
