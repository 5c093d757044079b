package topology

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	cpuDir  = "devices/system/cpu"
	nodeDir = "devices/system/node"
)

func cpuFile(id int, name string) string {
	return path.Join(cpuDir, "cpu"+strconv.Itoa(id), name)
}

func nodeFile(id int, name string) string {
	return path.Join(nodeDir, "node"+strconv.Itoa(id), name)
}

// sysfs reads the three shapes of file that topology comes in. Errors name the
// file; one that is missing is fs.ErrNotExist.
type sysfs struct{ fs fs.FS }

// text returns the whole file without its line end. Lists of an interleaved
// machine with thousands of CPUs are longer than a page, so nothing shorter than
// limit may be assumed.
func (s sysfs) text(name string) (string, error) {
	const limit = 1 << 20
	f, err := s.fs.Open(name)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > limit {
		return "", fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// list reads a list of CPUs or of nodes.
func (s sysfs) list(name string) (cpuset.Set, error) {
	text, err := s.text(name)
	if err != nil {
		return cpuset.Set{}, err
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("read %s: %w", name, err)
	}
	return set, nil
}

func (s sysfs) number(name string) (int, error) {
	text, err := s.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("read %s: %q is not a number", name, text)
	}
	return int(n), nil
}

// optional turns a missing file into ok == false, for data that only some kernels
// and machines have.
func optional[T any](value T, err error) (v T, ok bool, _ error) {
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	return value, err == nil, err
}
