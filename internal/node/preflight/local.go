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

	"github.com/cpupoold/cpupoold/internal/othermanagers"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Local returns the host of this process. In a container, the directories of the host must be
// mounted at the same paths.
func Local() Host {
	return Host{
		Root:        os.DirFS("/"),
		FindRuntime: func(ctx context.Context) (string, error) { return cri.Find(ctx, "/") },
		DialRuntime: func(endpoint string) (Runtime, error) { return cri.Dial(endpoint, othermanagers.IsRequest) },
		SystemdVersion: func(ctx context.Context) (int, error) {
			return callSystemd(ctx, "version", func(s *systemd.Client) (int, error) { return s.Version(ctx) })
		},
		Units:      unitsOfSystemd,
		Writable:   writable,
		LockHolder: lockHolder,
	}
}

// unitsOfSystemd uses one connection, which takes longer than an answer.
func unitsOfSystemd(ctx context.Context, names []string) []UnitAnswer {
	all, err := callSystemd(ctx, "units", func(s *systemd.Client) ([]UnitAnswer, error) {
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

// callSystemd ends with ctx: some calls of the D-Bus client have no context.
func callSystemd[T any](ctx context.Context, what string, query func(*systemd.Client) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		// Only a client that sets properties needs the possible CPUs.
		s := systemd.New(cpuset.Set{})
		defer s.Close()
		value, err := query(s)
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

// writable checks the permissions of dir, or of its nearest existing parent. It writes
// nothing. An existing dir must be private: the daemon trusts the names in it.
func writable(dir string) error {
	var own unix.Stat_t
	if err := unix.Stat(dir, &own); err == nil && own.Mode&unix.S_IFMT == unix.S_IFDIR {
		if euid := uint32(unix.Geteuid()); own.Uid != 0 && own.Uid != euid || own.Mode&0o002 != 0 || own.Mode&0o020 != 0 && own.Gid != 0 {
			return fmt.Errorf("other users can write to %s (owner %d:%d, mode %04o)", dir, own.Uid, own.Gid, own.Mode&0o7777)
		}
	}
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

// lockHolder searches /proc/locks: to try the lock could make a starting daemon fail.
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

// parseLocks returns the process that holds a flock(2) on the file with the given id, or 0. id
// is MAJOR:MINOR:INODE as in proc_locks(5). A process that only waits for the lock has "->" in
// the second field.
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
