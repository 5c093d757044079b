package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Source reads and writes knobs. A Tuner calls its sources from one goroutine, one after
// another.
type Source interface {
	// Kinds are those of its knobs. No other source has any of them.
	Kinds() []Kind
	// Read returns all knobs that there are. With an error some may be missing.
	Read(ctx context.Context) ([]Observed, error)
	// Write gives a knob a value. That it is gone is fs.ErrNotExist.
	Write(ctx context.Context, k Knob, value string) error
}

// Dir is a file system of the kernel's, procfs or sysfs.
type Dir struct {
	fs.FS
	// WriteFile writes a value to a file that is there.
	WriteFile func(name, value string) error
}

// OpenDir opens a directory of the host, and nothing outside of it.
func OpenDir(name string) (Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return Dir{}, err
	}
	write := func(name, value string) error {
		f, err := root.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		// The kernel takes a value in one piece or refuses it, and says so in write(2).
		_, err = f.WriteString(value)
		f.Close() //nolint:errcheck // see above
		return err
	}
	return Dir{FS: root.FS(), WriteFile: write}, nil
}

// maxFile bounds what is read of a file.
const maxFile = 1 << 20

// read returns what a file holds without the newline at its end.
func (d Dir) read(name string) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return strings.TrimSuffix(string(b), "\n"), err
}

// numbers are the names of a directory's entries that are numbers.
func (d Dir) numbers(dir string) ([]string, error) {
	entries, err := fs.ReadDir(d.FS, dir)
	var names []string
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 31); err == nil {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// isGone says that what an error is about is not there any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

// whyOf says what an error of a write means. Values are the kernel's
// (kernel/irq/proc.c, write_irq_affinity): EIO, from 6.2 or so on EPERM, for interrupts
// that cannot be moved at all, and EINVAL where their controller has but one target (MSI of
// some PCIe hosts); ENOSPC where the target CPUs have no vector left; EBUSY
// while an earlier move is pending; EINVAL for a thread of the kernel that is bound.
func whyOf(k Kind, err error) Why {
	switch {
	case k == IRQ && (errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EPERM)), (k == IRQ || k == KThread) && errors.Is(err, syscall.EINVAL):
		return Immovable
	case errors.Is(err, syscall.ENOSPC):
		return NoSpace
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EAGAIN):
		return Busy
	default:
		return Failed
	}
}

// isTemporary says that a refusal may be over by itself.
func (w Why) isTemporary() bool { return w != Immovable && w != NotTaken }

// maskFile is a knob in one file that holds a mask of hexadecimal digits.
type maskFile struct {
	dir  Dir
	kind Kind
	name string
	// from is the file that it is read from, if there is one; else name.
	from  string
	nbits int
	// bootDefault is its default; see Observed.
	bootDefault func() string
}

func (m maskFile) Kinds() []Kind { return []Kind{m.kind} }

func (m maskFile) Read(context.Context) ([]Observed, error) {
	text, err := "", fs.ErrNotExist
	if m.from != "" {
		text, err = m.dir.read(m.from)
	}
	if isGone(err) {
		text, err = m.dir.read(m.name)
	}
	if isGone(err) {
		return nil, nil // this kernel has none
	}
	if err != nil {
		return nil, err
	}
	set, err := readMask(text, m.nbits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return []Observed{{Knob: Knob{Kind: m.kind}, Value: set.String(), Default: m.bootDefault()}}, nil
}

func (m maskFile) Write(_ context.Context, _ Knob, value string) error {
	return writeMask(m.dir, m.name, value, m.nbits)
}

// readMask reads a mask that may have bits of CPUs that there cannot be.
func readMask(text string, nbits int) (cpuset.Set, error) {
	set, err := cpuset.ParseMask(text, cpuset.MaxCPUs)
	if err != nil {
		return set, err
	}
	return set.Intersection(cpuset.Range(0, nbits-1)), nil
}

// writeMask writes a list of CPUs as a mask.
func writeMask(dir Dir, name, value string, nbits int) error {
	set, err := cpuset.Parse(value)
	if err != nil {
		return err
	}
	return dir.WriteFile(name, set.Mask(nbits))
}

// DefaultAffinityOf is the mask of interrupts that are still to come.
func DefaultAffinityOf(proc Dir, m Machine) Source {
	return maskFile{
		dir: proc, kind: DefaultAffinity, name: "irq/default_smp_affinity", nbits: m.Possible.Last() + 1,
		bootDefault: func() string { return defaultInterruptCPUs(proc) },
	}
}

// WorkqueueOf is the mask of the kernel's unbound work. From kernel 6.8 on the file shows
// it without the CPUs of isolated partitions, and another one what was asked for.
func WorkqueueOf(sys Dir, m Machine) Source {
	const dir = "devices/virtual/workqueue/"
	return maskFile{
		dir: sys, kind: Workqueue, name: dir + "cpumask", from: dir + "cpumask_requested", nbits: m.Possible.Last() + 1,
		bootDefault: func() string { return defaultExcept(sys, "isolated", "nohz_full") },
	}
}

// defaultInterruptCPUs is the default of interrupts: irqaffinity= of the kernel's command line,
// and the CPU that booted.
func defaultInterruptCPUs(proc Dir) string {
	line, _ := proc.read("cmdline")
	boot, _ := noise.ParseBoot(line, cpuset.MaxCPUs) // what cannot be read the kernel has not read, either
	if boot.Interrupts.IsEmpty() {
		return ""
	}
	return boot.Interrupts.Union(cpuset.Of(0)).String()
}

// defaultExcept is the default of what the kernel keeps off the CPUs of files of sysfs.
func defaultExcept(sys Dir, names ...string) string {
	text, err := sys.read("devices/system/cpu/possible")
	if err != nil {
		return ""
	}
	possible, err := cpuset.Parse(strings.TrimSpace(text))
	away := isolatedCPUs(sys, names...)
	if err != nil || away.IsEmpty() {
		return ""
	}
	return possible.Difference(away).String()
}

// isolatedCPUs are those of files that say which CPUs the kernel's command line isolates.
func isolatedCPUs(sys Dir, names ...string) cpuset.Set {
	var all cpuset.Set
	for _, name := range names {
		if text, err := sys.read("devices/system/cpu/" + name); err == nil {
			if set, err := cpuset.Parse(strings.TrimSpace(text)); err == nil { // "(null)" is none
				all = all.Union(set)
			}
		}
	}
	return all
}
