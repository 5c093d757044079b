package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the time without changes after which a file is read: editors
// write, rename and chmod, and a ConfigMap's update is four renames.
const settle = 100 * time.Millisecond

// Watch calls wake whenever the content of the file at path has changed, and
// once when the watch stands, so that a change since Load is not missed. It
// returns nil when ctx is done, and an error when the watch is lost.
//
// Watch watches directories, because editors and the kubelet replace files. It watches the
// directory of the file, and of each symbolic link on the path. (A ConfigMap's file is a link
// into ..data, which is itself a link.)
func Watch(ctx context.Context, path string, wake func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch configuration: %w", err)
	}
	defer w.Close()
	if err := follow(w, path); err != nil {
		return err
	}
	last := digest(path)
	wake()

	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-w.Events:
			if !ok {
				return errors.New("watch configuration: the watch was closed")
			}
			quiet.Reset(settle)
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch configuration: %w", err)
			}
			quiet.Reset(settle) // events were dropped: read the file
		case <-quiet.C:
			if err := follow(w, path); err != nil {
				return err
			}
			if now := digest(path); now != last {
				last = now
				wake()
			}
		}
	}
}

// follow watches the directories of path and its links, and no others.
func follow(w *fsnotify.Watcher, path string) error {
	wanted := map[string]bool{}
	const longest = 40 // links that the kernel follows, path_resolution(7)
	for range longest {
		wanted[filepath.Dir(path)] = true
		target, err := os.Readlink(path)
		if err != nil {
			break // not a link, or missing at the moment
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	for _, dir := range w.WatchList() {
		if !wanted[dir] {
			// The kernel has ended the watch of a removed directory.
			if err := w.Remove(dir); err != nil && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
				return fmt.Errorf("stop watching %s: %w", dir, err)
			}
		}
	}
	for dir := range wanted {
		if err := w.Add(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	if len(w.WatchList()) == 0 {
		return fmt.Errorf("watch configuration: directory %s is gone; restore it and restart the daemon", filepath.Dir(path))
	}
	return nil
}

// digest identifies the content of a file. A file that cannot be read has a separate digest,
// so that its loss is noticed.
func digest(path string) [sha256.Size]byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return sha256.Sum256([]byte("unreadable: " + err.Error()))
	}
	return sha256.Sum256(data)
}
