package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
)

// keyLen is the number of hexadecimal digits of a key: enough for the few builds of one name.
const keyLen = 12

// key is a hash over the inputs of a build. It remembers the first error.
type key struct {
	hash hash.Hash
	err  error
}

func (k *key) text(s string) {
	if k.hash == nil {
		k.hash = sha256.New()
	}
	fmt.Fprintf(k.hash, "%q\n", s)
}

// file adds the content of one file.
func (k *key) file(path string) {
	if k.err != nil {
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		k.err = err
		return
	}
	k.text(string(data))
}

// tree adds names, modes and contents of all that is below dir.
func (k *key) tree(dir string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		k.text(rel + " " + info.Mode().String())
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			k.text(target)
		case d.Type().IsRegular():
			k.file(path)
		}
		return k.err
	})
	if k.err == nil {
		k.err = err
	}
}

func (k *key) sum() (string, error) {
	if k.err != nil {
		return "", k.err
	}
	k.text("end")
	sum := hex.EncodeToString(k.hash.Sum(nil))
	return sum[:keyLen], nil
}
