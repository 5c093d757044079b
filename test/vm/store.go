package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// openStore finds this repository from the working directory, which `go test` sets to the package's.
func openStore() (image.Store, error) {
	root, err := moduleRoot()
	if err != nil {
		return image.Store{}, err
	}
	cache, err := cacheDir()
	if err != nil {
		return image.Store{}, err
	}
	return image.Store{Source: filepath.Join(root, "test", "vm"), Cache: filepath.Join(cache, "vm")}, nil
}

// cacheDir returns the directory for expensive results, which outlives the clone; parts/build.sh and the Makefile have the same rule.
func cacheDir() (string, error) {
	if dir := os.Getenv("CPUPOOLD_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w; set CPUPOOLD_CACHE", err)
	}
	return filepath.Join(dir, "cpupoold"), nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for start := dir; ; {
		_, err := os.Stat(filepath.Join(dir, "test", "vm", "image", "rootfs.sh"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("find the cpupoold repository: %s is not inside it", start)
		}
		dir = parent
	}
}

func findDisk(ctx context.Context, store image.Store, config Config) (image.Disk, error) {
	spec, err := config.disk()
	if err != nil {
		return image.Disk{}, err
	}
	return store.Disk(ctx, spec)
}
