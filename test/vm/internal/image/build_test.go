package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// fill returns a build step that writes content, and counts its calls.
func fill(content string, calls *atomic.Int32) func(string) error {
	return func(dir string) error {
		calls.Add(1)
		return os.WriteFile(filepath.Join(dir, "content"), []byte(content), 0o644)
	}
}

func TestBuildOnce(t *testing.T) {
	store := image.Store{Cache: filepath.Join(t.TempDir(), "cache")}
	var calls atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			dir, err := store.Build(t.Context(), "disk", "inputs", fill("a", &calls))
			if err != nil {
				t.Error(err)
				return
			}
			if data, err := os.ReadFile(filepath.Join(dir, "content")); err != nil || string(data) != "a" {
				t.Errorf("content = %q, %v; want a", data, err)
			}
		})
	}
	all.Wait()
	if got := calls.Load(); got != 1 {
		t.Errorf("built %d times; want once", got)
	}
}

func TestBuildDependsOnInputs(t *testing.T) {
	store := image.Store{Cache: t.TempDir()}
	var calls atomic.Int32
	dirs := make(map[string]string)
	for _, inputs := range []string{"1", "2", "1"} {
		dir, err := store.Build(t.Context(), "disk", inputs, fill(inputs, &calls))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "content")); err != nil || string(data) != inputs {
			t.Errorf("content for %s = %q, %v", inputs, data, err)
		}
		dirs[dir] = inputs
	}
	if len(dirs) != 2 || calls.Load() != 2 {
		t.Errorf("%d directories after %d builds; want 2 after 2", len(dirs), calls.Load())
	}
}

func TestBuildFailureLeavesNothing(t *testing.T) {
	store := image.Store{Cache: t.TempDir()}
	broken := errors.New("no space left")
	_, err := store.Build(t.Context(), "disk", "inputs", func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("Build = %v; want %v", err, broken)
	}
	var calls atomic.Int32
	dir, err := store.Build(t.Context(), "disk", "inputs", fill("whole", &calls))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "content" {
		t.Errorf("after a failed build there is %v, %v; want content alone", entries, err)
	}
}

func TestBuildKeepsTheNewest(t *testing.T) {
	store := image.Store{Cache: t.TempDir()}
	var calls atomic.Int32
	old := time.Now().Add(-time.Hour)
	var dirs []string
	for _, inputs := range []string{"1", "2", "3"} {
		dir, err := store.Build(t.Context(), "disk", inputs, fill(inputs, &calls))
		if err != nil {
			t.Fatal(err)
		}
		old = old.Add(time.Minute)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if _, err := store.Build(t.Context(), "disk-of-another-name", "1", fill("1", &calls)); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true} {
		if _, err := os.Stat(dirs[i]); (err == nil) != want {
			t.Errorf("build %d is there: %v; want %v", i+1, err == nil, want)
		}
	}
}

func TestBuildWaitsForTheLock(t *testing.T) {
	store := image.Store{Cache: t.TempDir()}
	_, err := store.Build(t.Context(), "disk", "outer", func(string) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := store.Build(ctx, "disk", "inner", func(string) error {
			t.Error("two builds of one name at a time; want one")
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("inner Build = %v; want %v", err, context.Canceled)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
