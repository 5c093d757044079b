package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Local is the machine that this process runs on, as far as the process sees it:
// in a container, the host's directories must be mounted where the host has them.
func Local() Host {
	return Host{
		Root:           os.DirFS("/"),
		FindRuntime:    func(ctx context.Context) (string, error) { return cri.Find(ctx, "/") },
		DialRuntime:    func(endpoint string) (Runtime, error) { return cri.Dial(endpoint) },
		SystemdVersion: systemdVersion,
		Units:          units,
		Writable:       writable,
		LockHolder:     lockHolder,
	}
}

func systemdVersion(ctx context.Context) (int, error) {
	return ask(ctx, "version", func(s *cgroup.Systemd) (int, error) { return s.Version(ctx) })
}

// units asks for all over one connection: to make one takes longer than the answer.
func units(ctx context.Context, names []string) []UnitAnswer {
	all, err := ask(ctx, "units", func(s *cgroup.Systemd) ([]UnitAnswer, error) {
		answers := make([]UnitAnswer, len(names))
		for i, name := range names {
			answers[i].Unit, answers[i].Err = s.Unit(ctx, name)
		}
		return answers, nil
	})
	if err != nil {
		return slices.Repeat([]UnitAnswer{{Err: err}}, len(names))
	}
	return all
}

// ask gives up when ctx ends: not every call on the way to the answer takes a
// context, and a manager that hangs must not make the checks hang.
func ask[T any](ctx context.Context, what string, question func(*cgroup.Systemd) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		// Which CPUs are possible matters only to a client that sets properties.
		s := cgroup.NewSystemd(cpuset.Set{})
		defer s.Close()
		value, err := question(s)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("ask systemd for its %s: %w", what, ctx.Err())
	}
}

// writable asks the kernel about dir or, where it does not exist, about the
// nearest directory above it. Nothing is written.
func writable(dir string) error {
	for {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "access", Path: dir, Err: err}
		}
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "access", Path: dir, Err: unix.ENOTDIR}
		}
		return err
	}
}

// lockHolder looks the file up in /proc/locks. To try the lock instead could
// make a daemon fail that starts at this moment.
func lockHolder(file string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Stat(file, &stat); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("stat %s: %w", file, err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, fmt.Errorf("read locks: %w", err)
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	return parseLocks(locks, id), nil
}

// parseLocks returns the process that holds a flock(2) on the file with the given
// id, MAJOR:MINOR:INODE as proc_locks(5) prints it, or 0. Who only waits for the
// lock has "->" in the second field.
func parseLocks(locks []byte, id string) int {
	for line := range bytes.Lines(locks) {
		var number, kind, mode, access, file string
		var pid int
		n, _ := fmt.Sscan(string(line), &number, &kind, &mode, &access, &pid, &file)
		if n == 6 && kind == "FLOCK" && file == id && pid > 0 {
			return pid
		}
	}
	return 0
}
