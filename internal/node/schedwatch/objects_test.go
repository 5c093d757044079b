package schedwatch_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestObjects checks that bpf/SUMS, which `make bpf` writes, has the hashes of all sources of the eBPF program and
// of the files built from them.
func TestObjects(t *testing.T) {
	sums, err := os.ReadFile("bpf/SUMS")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	var names []string
	for _, pattern := range []string{"bpf/*.[ch]", "watch_bpfel.*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("files %s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(names))); diff != "" {
		t.Errorf("files: run `make bpf` (-bpf/SUMS +files):\n%s", diff)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want[name] {
			t.Errorf("%s has changed: run `make bpf`", name)
		}
	}
}
