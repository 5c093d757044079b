package schedwatch

// `make bpf` runs this. Sums holds the hashes of the sources and of the objects built from them, for TestObjects.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -go-package schedwatch -cc clang -strip llvm-strip -target bpfel -cflags "-O2 -mcpu=v3 -Wall -Wextra -Werror" -type cpu -type owner -type key -type row watch bpf/watch.c
//go:generate sh -c "sha256sum bpf/*.c bpf/*.h watch_bpfel.go watch_bpfel.o >bpf/SUMS"
