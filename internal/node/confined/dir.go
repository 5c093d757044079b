package confined

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrForeign means another kind of file: a link, a FIFO, a device, or a directory.
var ErrForeign = errors.New("is another kind of file")

// ErrUnfinished is the error of Clear if entries are left after the permitted steps.
var ErrUnfinished = errors.New("not removed completely")

// Dir is an open directory.
type Dir struct{ f *os.File }

// Open opens a trusted directory. It creates a missing one with perm, unless perm is 0.
func Open(name string, perm fs.FileMode) (*Dir, error) {
	f, err := os.OpenFile(name, unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) && perm != 0 {
		if err := os.MkdirAll(name, perm); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(name, unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{f}, nil
}

// Close closes the directory.
func (d *Dir) Close() error { return d.f.Close() }

// Sub opens a directory in d, and creates a missing one. It gives it the mode perm, unless
// another user owns it: the daemon can write there without the owner's rights.
func (d *Dir) Sub(name string, perm fs.FileMode) (*Dir, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(d.fd(), name, uint32(perm.Perm())); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, d.fault("mkdir", name, err)
	}
	sub, err := d.Enter(name)
	if err != nil {
		return nil, err
	}
	info, err := sub.f.Stat()
	if err == nil && info.Mode().Perm() != perm {
		if err = sub.f.Chmod(perm); errors.Is(err, unix.EPERM) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return sub, nil
}

// Stamp identifies a state of a file or directory. Each change of its content, its attributes or
// its name gives it another stamp. Exceptions are a write through a shared memory mapping on tmpfs,
// and a change in the same tick of the kernel's clock as the change before.
type Stamp struct {
	dev, ino uint64
	mode     uint32
	size     int64
	changed  unix.Timespec // ctime
}

// IsSettled reports whether the last change is so old that each later change gives another stamp.
func (s Stamp) IsSettled(now time.Time) bool {
	const tick = 2 * time.Second // the coarsest clock of a file system
	return now.Sub(time.Unix(s.changed.Unix())) > tick
}

// Stamp returns the stamp of a file of any kind in d, or of d itself if name is ".".
func (d *Dir) Stamp(name string) (Stamp, error) {
	f := d.f
	if name != "." {
		var err error
		if f, err = d.open(name, unix.O_PATH|unix.O_NOFOLLOW, 0); err != nil {
			return Stamp{}, err
		}
		defer f.Close() //nolint:errcheck // opened without access
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stamp{}, d.fault("stat", name, err)
	}
	return Stamp{st.Dev, st.Ino, st.Mode, st.Size, st.Ctim}, nil
}

// Names returns at most limit names in a directory of d, or in d (".") itself, in no order.
func (d *Dir) Names(name string, limit int) ([]string, error) {
	sub, err := d.Enter(name)
	if err != nil {
		return nil, err
	}
	defer sub.f.Close() //nolint:errcheck // opened to read
	names, err := sub.f.Readdirnames(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// Read returns the content of a regular file of at most limit bytes.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, err := d.regular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = d.fault("read", name, fmt.Errorf("has more than %d bytes", limit))
	}
	return b, err
}

// Write replaces a file: readers see the old content or the new content. A directory with the
// name of the file is moved aside to a name that IsAside accepts.
func (d *Dir) Write(name string, content []byte, perm fs.FileMode) error {
	write := func() error { return d.write(name, content, perm, func(*os.File) error { return nil }) }
	err := write()
	if errors.Is(err, unix.EISDIR) {
		if err = d.Rename(name, aside(name)); err == nil {
			err = write()
		}
	}
	return err
}

// WriteDurably replaces a file, durably on return. A directory with its name is an error.
func (d *Dir) WriteDurably(name string, content []byte, perm fs.FileMode) error {
	if err := d.write(name, content, perm, (*os.File).Sync); err != nil {
		return err
	}
	return d.f.Sync() // without it, a power failure could bring the old file back
}

func (d *Dir) write(name string, content []byte, perm fs.FileMode, sync func(*os.File) error) error {
	fresh := aside(name)
	f, err := d.open(fresh, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.Rename(fresh, name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd(), fresh, 0) // err is the cause
	}
	return err
}

// File opens or creates a regular file for reading and writing by its owner only.
func (d *Dir) File(name string) (*os.File, error) {
	f, err := d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if f, err = d.regular(name, os.O_RDWR); err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Rename gives a file another name in the same directory.
func (d *Dir) Rename(from, to string) error {
	if err := errors.Join(check(from), check(to)); err != nil {
		return err
	}
	if err := unix.Renameat(d.fd(), from, d.fd(), to); err != nil {
		return d.fault("rename", from, err)
	}
	return nil
}

// Remove removes a file of any kind, or an empty directory.
func (d *Dir) Remove(name string) error {
	if err := check(name); err != nil {
		return err
	}
	err := unix.Unlinkat(d.fd(), name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return d.fault("remove", name, err)
	}
	return nil
}

// Clear removes a file or a tree of directories. A missing one is no error. It subtracts its
// steps from steps, and returns ErrUnfinished when none is left. The entries that are left
// then have names that IsAside accepts. It keeps one directory open at a time, regardless of
// the depth of the tree: it moves inner directories to d.
func (d *Dir) Clear(name string, steps *int) error {
	for trees := []string{name}; len(trees) > 0; {
		if *steps <= 0 {
			return d.fault("remove", name, ErrUnfinished)
		}
		*steps--
		last := len(trees) - 1
		err := d.Remove(trees[last])
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
			trees = trees[:last]
			continue
		case !errors.Is(err, fs.ErrExist): // ENOTEMPTY is one, too
			return err
		}
		if !IsAside(trees[last]) {
			other := aside(trees[last])
			if err := d.Rename(trees[last], other); err != nil {
				return err
			}
			trees[last] = other
		}
		inner, err := d.empty(trees[last], steps)
		if trees = append(trees, inner...); err != nil {
			return err
		}
	}
	return nil
}

const clearBatch = 1000

// empty removes entries, and moves directories with entries to d.
func (d *Dir) empty(name string, steps *int) (inner []string, err error) {
	sub, err := d.Enter(name)
	if err != nil {
		return nil, err
	}
	defer sub.f.Close() //nolint:errcheck // no file was written
	names, err := sub.f.Readdirnames(min(clearBatch, max(*steps, 1)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, n := range names {
		*steps--
		err := sub.Remove(n)
		if errors.Is(err, fs.ErrExist) {
			to := aside(name)
			if err = unix.Renameat(sub.fd(), n, d.fd(), to); err == nil {
				inner = append(inner, to)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return inner, err
		}
	}
	return inner, nil
}

// IsAside reports whether Write and Clear use a name. A killed process leaves such files.
func IsAside(name string) bool {
	return strings.HasPrefix(name, ".") && strings.TrimRight(name, digits) != name
}

const digits = "0123456789"

// aside returns a new name for a file that is being written or removed: .app.json4711.
func aside(name string) string {
	if IsAside(name) {
		name = strings.TrimRight(name, digits)
	}
	name = strings.TrimPrefix(name, ".")
	const longest = 255 - len(".") - len("18446744073709551615") // a name has at most 255 bytes
	return "." + name[:min(len(name), longest)] + strconv.FormatUint(rand.Uint64(), 10)
}

// regular opens a file without access first: a driver runs code when a device is opened.
func (d *Dir) regular(name string, flags int) (*os.File, error) {
	p, err := d.open(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer p.Close() //nolint:errcheck // opened without access
	info, err := p.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, d.fault("open", name, ErrForeign)
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(p.Fd())), flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.fault("open", name, errors.Unwrap(err))
	}
	return f, nil
}

// Enter opens a directory in d. A missing one is an error.
func (d *Dir) Enter(name string) (*Dir, error) {
	f, err := d.open(name, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = d.fault("open", name, ErrForeign)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{f}, nil
}

func (d *Dir) open(name string, flags int, perm uint32) (*os.File, error) {
	if name != "." {
		if err := check(name); err != nil {
			return nil, err
		}
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(perm),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(d.fd(), name, &how)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat2(d.fd(), name, &how)
	}
	if errors.Is(err, unix.ENOSYS) {
		err = fmt.Errorf("openat2: %w: Linux is older than 5.6, or a seccomp filter such as RestrictSUIDSGID= of a systemd unit refuses the call", err)
	}
	if err != nil {
		return nil, d.fault("open", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.f.Name(), name)), nil
}

func (d *Dir) fd() int { return int(d.f.Fd()) }

func (d *Dir) fault(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: filepath.Join(d.f.Name(), name), Err: err}
}

// check returns an error if a name is not a single file name.
func check(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%.80q is not a file name", name)
	}
	return nil
}
