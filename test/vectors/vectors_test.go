package vectors_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var dir = flag.String("dir", "", "directory of vector files to run instead of testdata")

// vectorFile is the format of the files.
type vectorFile struct {
	Topologies machines          `json:"topologies"`
	Cases      []json.RawMessage `json:"cases"`
}

// header is the common part of every case; each kind decodes the rest.
type header struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

func TestVectors(t *testing.T) {
	own := *dir == ""
	files := vectorFiles(t, vectorDir())
	if own {
		files = append(files, vectorFiles(t, filepath.Join("testdata", "kubelet"))...)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			file := readFile(t, path)
			kinds := file.Topologies.kinds()
			for _, raw := range file.Cases {
				runCase(t, kinds, raw, own)
			}
		})
	}
}

func vectorFiles(t *testing.T, dir string) []string {
	t.Helper()
	pattern := filepath.Join(dir, "*.json")
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("glob %s = %d files, %v; want some", pattern, len(files), err)
	}
	return files
}

// vectorDir resolves -dir. The go command runs tests in the directory of their
// package, but people name DIR from the root of the repository.
func vectorDir() string {
	if *dir == "" {
		return "testdata"
	}
	if fromRoot := filepath.Join("..", "..", *dir); !filepath.IsAbs(*dir) {
		if _, err := os.Stat(fromRoot); err == nil {
			return fromRoot
		}
	}
	return *dir
}

func readFile(t *testing.T, path string) vectorFile {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("cases of %s = none; want some", path)
	}
	return file
}

// runCase runs one case as a subtest. Our own cases must all be of kinds that run,
// and deviate only where MAP.md lists them.
func runCase(t *testing.T, kinds map[string]kind, raw json.RawMessage, own bool) {
	var h header
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Errorf("read case %s: %v", raw, err)
		return
	}
	t.Run(h.Name, func(t *testing.T) {
		k, runs := kinds[h.Kind]
		switch reason, known := reasonToWait(h.Kind); {
		case !runs && own:
			t.Fatalf("kind %q has no check", h.Kind)
		case !runs && known:
			t.Skipf("kind %s: %s", h.Kind, reason)
		case !runs:
			t.Skipf("kind %s is unknown; decide about it in MAP.md", h.Kind)
		}
		err := k.check(raw)
		listed := slices.ContainsFunc(deviations, func(d deviation) bool { return d.name == h.Name })
		switch {
		case errors.Is(err, errDeviation) && own && !listed:
			t.Errorf("%v, which does not list it", err)
		case errors.Is(err, errDeviation), errors.Is(err, errNoAllocation):
			t.Skip(err)
		case err != nil:
			t.Error(err)
		case listed:
			t.Errorf("%q deviates no longer; remove it from MAP.md", h.Name)
		}
	})
}
