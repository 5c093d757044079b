package arch_test

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/cover"
)

// mostWalkFiles is the maximum number of files of the event loop's package with code that runs from
// the start event of a container to the first write of its cgroup.
const mostWalkFiles = 18

// TestWalkIsShort checks with coverage that the walk of a container event leads through few files.
// It runs TestWalkToFirstWrite up to the event, and up to the write. The walk is the code that runs
// more often in the second run.
func TestWalkIsShort(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the tests of the event loop with coverage")
	}
	dir, err := filepath.Abs("../../" + loopPackage)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "daemon.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=count", "-coverpkg=.", "-o", binary, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	before, after := countsUntil(t, binary, dir, "event"), countsUntil(t, binary, dir, "write")
	files := make(map[string]bool)
	for b, n := range after {
		if n > before[b] {
			files[path.Base(b.file)] = true
		}
	}
	names := slices.Sorted(maps.Keys(files))
	t.Logf("%d files (at most %d): %s", len(names), mostWalkFiles, strings.Join(names, ", "))
	if len(names) > mostWalkFiles {
		t.Errorf("the first write after a container event needs %d files of %s; want at most %d", len(names), loopPackage, mostWalkFiles)
	}
	for _, name := range []string{"objects.go", "step.go", "pass.go"} {
		if !files[name] {
			t.Errorf("the walk does not lead through %s: the coverage is not of the walk", name)
		}
	}
}

// block is the start of statements that run together.
type block struct {
	file         string
	line, column int
}

// countsUntil returns how often each block ran in TestWalkToFirstWrite.
func countsUntil(t *testing.T, binary, dir, until string) map[block]int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), until)
	run := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run=^TestWalkToFirstWrite$", "-test.coverprofile="+profile)
	run.Dir, run.Env = dir, append(os.Environ(), "WALK_UNTIL="+until)
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "reached the "+until) {
		t.Fatalf("TestWalkToFirstWrite until the %s: %v\n%s", until, err, out)
	}
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[block]int)
	for _, p := range profiles {
		for _, b := range p.Blocks {
			counts[block{p.FileName, b.StartLine, b.StartCol}] = b.Count
		}
	}
	return counts
}
