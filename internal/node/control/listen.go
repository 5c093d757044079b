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

// Socket is the socket's place in a run directory.
func Socket(runDir string) string { return filepath.Join(runDir, "cpupoold.sock") }

// listen listens on a Unix socket that only its owner can open, at no moment
// anybody else: it is made in a directory of its own that nobody else may enter,
// and moved to its place when its mode is right. remove takes it away.
func listen(ctx context.Context, socket string) (l net.Listener, remove func(), err error) {
	dir, err := os.MkdirTemp(filepath.Dir(socket), ".socket-") // has mode 0700
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty if all went well
	fresh := filepath.Join(dir, "s")
	l, err = new(net.ListenConfig).Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it is elsewhere then
	}
	if err := settle(fresh, socket); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listen on %s: %w", socket, err), l.Close())
	}
	return l, func() { _ = os.Remove(socket) }, nil // if it stays, the next daemon replaces it
}

// settle moves a fresh socket to its place, where another one may have been left.
func settle(fresh, socket string) error {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return err
	}
	if err := refuseOther(socket); err != nil {
		return err
	}
	return os.Rename(fresh, socket)
}

// refuseOther returns an error when something that is no socket is in the place of
// the socket.
func refuseOther(socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is something in its place that is no socket; remove it")
	}
	return nil
}
