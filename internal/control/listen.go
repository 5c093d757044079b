package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Socket returns the path of the socket in a run directory.
func Socket(runDir string) string { return filepath.Join(runDir, "cpupoold.sock") }

// listen listens on a Unix socket that only its owner can open. It creates the socket in a
// private directory, and moves it to its path after the mode is set: other users cannot
// open it at any time. remove deletes the socket.
//
// bind(2) and connect(2) know only paths. The names need no package confined: no user but root
// can write to runDir (`cpupoold check` reports another mode), and pods mount only directories
// below it. A rename replaces a link and does not follow it.
func listen(ctx context.Context, socket string) (l net.Listener, remove func(), err error) {
	dir, err := os.MkdirTemp(filepath.Dir(socket), ".socket-") // has mode 0700
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fresh := filepath.Join(dir, "s")
	l, err = new(net.ListenConfig).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the path changes below
	}
	if err := install(fresh, socket); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen on %s: %w", socket, err), l.Close())
	}
	return l, func() { _ = os.Remove(socket) }, nil // after an error the next daemon replaces it
}

// install replaces the socket of an earlier daemon, and no other file.
func install(fresh, socket string) error {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return err
	}
	info, err := os.Lstat(socket)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return errors.New("the path exists and is not a socket; remove it")
	}
	return os.Rename(fresh, socket)
}
