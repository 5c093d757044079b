package vm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/cavaliergopher/cpio"
)

// writeInitramfs writes the whole file system of a kernel-only guest: init, and in /test the test binary, its arguments and its testdata.
func writeInitramfs(file, init string, binary testBinary, args []string) (err error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := initramfs{cpio.NewWriter(f)}
	defer func() { err = errors.Join(err, w.Close(), f.Close()) }()
	if err := w.dir("test"); err != nil {
		return err
	}
	if err := w.bytes("test/args.json", 0o644, encoded); err != nil {
		return err
	}
	if err := w.file("init", init); err != nil {
		return err
	}
	if err := w.file("test/test", binary.path); err != nil {
		return err
	}
	if binary.testdata == "" {
		return nil
	}
	return w.tree("test/testdata", binary.testdata)
}

// initramfs is an archive in the only format that the kernel unpacks, see its
// Documentation/driver-api/early-userspace/buffer-format.rst.
type initramfs struct{ *cpio.Writer }

func (w initramfs) dir(name string) error {
	return w.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeDir | 0o755})
}

func (w initramfs) bytes(name string, mode fs.FileMode, data []byte) error {
	err := w.WriteHeader(&cpio.Header{Name: name, Mode: cpio.TypeReg | cpio.FileMode(mode.Perm()), Size: int64(len(data))})
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (w initramfs) file(name, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return w.bytes(name, info.Mode(), data)
}

// tree adds the directory source with all directories and files in it; it replaces symbolic links by their
// targets.
func (w initramfs) tree(name, source string) error {
	return filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		target := path.Join(name, filepath.ToSlash(rel))
		if d.IsDir() {
			return w.dir(target)
		}
		return w.file(target, file)
	})
}
