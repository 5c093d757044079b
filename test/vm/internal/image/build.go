package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kept is the number of builds of one name in the cache: the newest, and one that a VM may still run from.
const kept = 2

// Build returns the directory in the cache that holds name built from inputs, a text with all inputs of the result. If the cache
// has no such directory, Build calls fill with an empty one. Two processes never build one name at the same time.
func (s Store) Build(ctx context.Context, name, inputs string, fill func(dir string) error) (string, error) {
	var k key
	k.text(inputs)
	return s.build(ctx, name, &k, fill)
}

func (s Store) build(ctx context.Context, name string, k *key, fill func(dir string) error) (_ string, err error) {
	sum, err := k.sum()
	if err != nil {
		return "", fmt.Errorf("hash inputs of %s: %w", name, err)
	}
	dir := filepath.Join(s.Cache, name+"-"+sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", name, err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil { // another process built it in the meantime
		return dir, nil
	}
	tmp := filepath.Join(s.Cache, "tmp-"+name)
	if err := os.RemoveAll(tmp); err != nil { // remains of a killed build
		return "", err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return "", err
	}
	if err := fill(tmp); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", err
	}
	return dir, s.prune(name)
}

// lock holds other processes off name until unlock is called.
func (s Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.Cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.Cache, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(200 * time.Millisecond) // flock(2) cannot be cancelled, so it is not waited for
	defer retry.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, err
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// Has reports whether the cache has a build of name, for any inputs.
func (s Store) Has(name string) bool {
	dirs, err := s.builds(name)
	return err == nil && len(dirs) > 0
}

// builds returns the directories of all builds of name.
func (s Store) builds(name string) ([]string, error) {
	return filepath.Glob(filepath.Join(s.Cache, name+"-"+strings.Repeat("[0-9a-f]", keyLen)))
}

// prune removes all but the newest builds of name.
func (s Store) prune(name string) error {
	dirs, err := s.builds(name)
	if err != nil {
		return err
	}
	age := func(dir string) time.Time {
		info, err := os.Stat(dir)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(dirs, func(a, b string) int { return age(b).Compare(age(a)) })
	for _, dir := range dirs[min(kept, len(dirs)):] {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove old build: %w", err)
		}
	}
	return nil
}
