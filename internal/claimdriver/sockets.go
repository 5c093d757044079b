package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// removeSockets removes the sockets on which no process listens. With --pod-uid, each instance has sockets
// of its own, and an instance that was killed leaves them. The kubelet tries each of them after its start.
func (d *driver) removeSockets(ctx context.Context) error {
	var errs []error
	for _, pattern := range []string{
		filepath.Join(d.kubelet, "plugins_registry", dra.Driver+"-*reg.sock"),
		filepath.Join(d.kubelet, "plugins", dra.Driver, "dra*.sock"),
	} {
		sockets, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("find sockets: %w", err)
		}
		for _, s := range sockets {
			if !isStale(ctx, s) {
				continue
			}
			if err := os.Remove(s); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove socket of an earlier instance: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// isStale reports whether a socket is old and refuses connections. An instance that is just starting has
// made a socket, and may not listen yet.
func isStale(ctx context.Context, socket string) bool {
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < fileAge {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
