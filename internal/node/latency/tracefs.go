package latency

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxSetting is the maximum size of a file with settings: available_tracers and trace_options are the longest.
const maxSetting = 64 << 10

// tracefs holds the calls of a measurement to the kernel. Names are below the root of tracefs.
type tracefs struct{ files }

// kernel is the tracefs of this machine.
type kernel string

const kernelTracing kernel = "/sys/kernel/tracing"

func (k kernel) path(name string) string { return filepath.Join(string(k), name) }

func (k kernel) Read(name string) (string, error) {
	f, err := os.Open(k.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSetting))
	return string(text), err
}

func (k kernel) Write(name, value string) error {
	f, err := os.OpenFile(k.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	return nil
}

func (k kernel) Mkdir(name string) error { return os.Mkdir(k.path(name), 0o750) }

func (k kernel) Remove(name string) error {
	if err := unix.Rmdir(k.path(name)); err != nil {
		return &fs.PathError{Op: "remove", Path: k.path(name), Err: err}
	}
	return nil
}

func (k kernel) List(name string) ([]string, error) {
	entries, err := os.ReadDir(k.path(name))
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (k kernel) Open(name string) (io.ReadCloser, error) {
	fd, err := unix.Open(k.path(name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: k.path(name), Err: err}
	}
	return pipe(fd), nil
}

// pipe is an open trace_pipe. Without further text, a read returns io.EOF.
type pipe int

func (p pipe) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(p), b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN) || err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, fmt.Errorf("read trace: %w", err)
		default:
			return n, nil
		}
	}
}

func (p pipe) Close() error { return unix.Close(int(p)) }
