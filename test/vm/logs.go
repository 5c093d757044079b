package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// logLimit is the timeout for fetching logs from a guest that may be crashing.
const logLimit = 2 * time.Minute

// keepLogs copies the guest's console log and journal, and the output of tests, to a directory that outlives the guest. It returns
// that directory, and the errors of missing parts.
func (m *VM) keepLogs() string {
	err := m.dir.keep(consoleLog, outputs+"-*.txt")
	// The test's context may have ended.
	ctx, cancel := context.WithTimeoutCause(context.Background(), logLimit, errors.New("the guest does not answer"))
	defer cancel()
	for name, cmd := range map[string][]string{
		"journal.txt": {"journalctl", "--no-pager", "-o", "short-precise"},
		"cgroups.txt": {"systemd-cgls", "--no-pager", "-l"},
	} {
		err = errors.Join(err, m.save(ctx, filepath.Join(m.dir.kept, name), cmd...))
	}
	if err != nil {
		return fmt.Sprintf("%s (incomplete: %v)", m.dir.kept, err)
	}
	return m.dir.kept
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
