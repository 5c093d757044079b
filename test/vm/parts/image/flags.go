package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// words and files are flags that may be given several times.
type words struct{ list *[]string }

func (w words) String() string { return "" }

func (w words) Set(s string) error {
	*w.list = append(*w.list, s)
	return nil
}

type files struct{ list *[]file }

func (f files) String() string { return "" }

func (f files) Set(s string) error {
	v, err := parseFile(s)
	if err != nil {
		return err
	}
	*f.list = append(*f.list, v)
	return nil
}

// parseFile reads HOST:GUEST[:MODE]. HOST is a path of this machine without a colon, GUEST an absolute clean path other than /, and
// MODE an octal number up to 7777.
func parseFile(s string) (file, error) {
	p := strings.Split(s, ":")
	if len(p) < 2 || len(p) > 3 || p[0] == "" {
		return file{}, fmt.Errorf("%q is not HOST:GUEST[:MODE]", s)
	}
	f := file{host: p[0], guest: p[1], mode: 0o755}
	if !path.IsAbs(f.guest) || path.Clean(f.guest) != f.guest || f.guest == "/" {
		return file{}, fmt.Errorf("guest path %q is not absolute and clean", f.guest)
	}
	if len(p) == 3 {
		mode, err := strconv.ParseUint(p[2], 8, 16)
		if err != nil || mode > 0o7777 {
			return file{}, fmt.Errorf("mode %q is not an octal number up to 7777", p[2])
		}
		f.mode = int64(mode)
	}
	return f, nil
}
