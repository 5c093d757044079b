package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// logLimit is how long fetching logs from a guest that may be dying can take.
const logLimit = 2 * time.Minute

// logDir is where the logs of a guest whose test failed are kept.
func (m *VM) logDir() string {
	return filepath.Join(filepath.Dir(m.dir), "..", "failed", filepath.Base(m.dir))
}

// keepLogs copies the guest's console log and journal to dir, which outlives it, and returns dir, with what could not be had.
func (m *VM) keepLogs(dir string) string {
	err := os.MkdirAll(dir, 0o755)
	err = errors.Join(err, os.Link(m.Console(), filepath.Join(dir, "console.log")))
	// Not the test's context: that one may be what has ended.
	ctx, cancel := context.WithTimeoutCause(context.Background(), logLimit, errors.New("the guest does not answer"))
	defer cancel()
	err = errors.Join(err, m.save(ctx, filepath.Join(dir, "journal.txt"), "journalctl", "--no-pager", "-o", "short-precise"))
	err = errors.Join(err, m.save(ctx, filepath.Join(dir, "cgroups.txt"), "systemd-cgls", "--no-pager", "-l"))
	outputs, _ := filepath.Glob(filepath.Join(m.dir, "tests-*", "output.txt"))
	for _, output := range outputs {
		err = errors.Join(err, os.Link(output, filepath.Join(dir, filepath.Base(filepath.Dir(output))+".txt")))
	}
	if err != nil {
		return fmt.Sprintf("%s (incomplete: %v)", dir, err)
	}
	return dir
}

// save writes the standard output of a command in the guest to a file.
func (m *VM) save(ctx context.Context, path string, cmd ...string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(m.RunWith(ctx, Files{Stdout: f}, cmd...), f.Close())
}

// tail returns the last bytes of a file, for an error message.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}
