package service

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

var errLocked = errors.New("another cpupoold holds the node's lock")

// Lock takes the node's writer lock, a file in runDir. A systemd unit and a DaemonSet, or
// two pods of an overlapping rollout, must never write at the same time. The kernel
// releases the lock when the process ends; unlock releases it earlier. In a container
// runDir must be the host's directory.
//
// Only root can open the file, because each process that opens it can hold the lock. The path is the
// same in all versions, so that a daemon excludes older and newer ones.
func Lock(runDir string) (unlock func() error, err error) {
	dir, err := confined.Open(runDir, 0o755)
	if err != nil {
		return nil, fmt.Errorf("create lock directory: %w", err)
	}
	defer dir.Close() //nolint:errcheck // no file was written
	const base = "lock"
	name := filepath.Join(runDir, base)
	f, err := dir.File(base)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b := make([]byte, 32)
		n, _ := f.Read(b)
		holder := cmp.Or(strings.TrimSpace(string(b[:n])), "unknown")
		_ = f.Close() // the lock's error is the cause
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is held by process %s: stop that daemon first", errLocked, name, holder)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// The file's content serves only the message above; the kernel holds the lock.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f.Close, nil
}
