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

// Source reads and writes knobs. A Tuner calls its sources one after another.
type Source interface {
	// Kinds returns the kinds of its knobs. Each kind has one source.
	Kinds() []Kind
	// Read returns all knobs. With an error, some may be missing.
	Read(ctx context.Context) ([]Observed, error)
	// Write sets a knob. It returns fs.ErrNotExist, ESRCH or ENODEV if the knob is gone.
	Write(ctx context.Context, k Knob, value string) error
}

// Dir is procfs or sysfs.
type Dir struct {
	fs.FS
	// WriteFile writes a value to an existing file.
	WriteFile func(name, value string) error
}

// OpenDir opens a directory of the host. Paths and links cannot leave it.
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
		_, err = f.WriteString(value)
		f.Close() //nolint:errcheck // the kernel reports errors of these files in write(2)
		return err
	}
	return Dir{FS: root.FS(), WriteFile: write}, nil
}

const maxFile = 1 << 20

// Read returns the content of a file without the newline at its end.
func (d Dir) Read(name string) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return strings.TrimSuffix(string(b), "\n"), err
}

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

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

// whyOf returns the reason of a failed write. The kernel returns these errors
// (kernel/irq/proc.c, write_irq_affinity; kernel threads: sched_setaffinity(2)):
//   - EIO (kernel 6.1) or EPERM (6.12): the interrupt cannot be moved;
//   - EINVAL: its controller has one target (MSI of some PCIe hosts), or the kernel thread
//     is bound;
//   - ENOSPC: the target CPUs have no free vector;
//   - EBUSY: an earlier move is pending.
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

// maskFile is a source with one knob, in a file with a hexadecimal mask.
type maskFile struct {
	dir   Dir
	kind  Kind
	name  string
	from  string // file to read if it exists. Otherwise name is read
	nbits int
	// bootDefault returns the Default of Observed.
	bootDefault func() string
}

func (m maskFile) Kinds() []Kind { return []Kind{m.kind} }

func (m maskFile) Read(context.Context) ([]Observed, error) {
	text, err := "", fs.ErrNotExist
	if m.from != "" {
		text, err = m.dir.Read(m.from)
	}
	if isGone(err) {
		text, err = m.dir.Read(m.name)
	}
	if isGone(err) {
		return nil, nil // this kernel does not have the file
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

// readMask parses a mask. It removes CPUs that are not possible.
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

// DefaultAffinityOf returns the source of the mask of new interrupts.
func DefaultAffinityOf(proc Dir, m Machine) Source {
	return maskFile{
		dir: proc, kind: DefaultAffinity, name: "irq/default_smp_affinity", nbits: m.Possible.Last() + 1,
		bootDefault: func() string { return defaultInterruptCPUs(proc) },
	}
}

// WorkqueueOf returns the source of the mask of unbound kernel work. From kernel 6.8 on,
// cpumask lacks the CPUs of isolated cpuset partitions. cpumask_requested has all of them.
func WorkqueueOf(sys Dir, m Machine) Source {
	const dir = "devices/virtual/workqueue/"
	return maskFile{
		dir: sys, kind: Workqueue, name: dir + "cpumask", from: dir + "cpumask_requested", nbits: m.Possible.Last() + 1,
		bootDefault: func() string { return defaultExcept(sys, "isolated", "nohz_full") },
	}
}

// defaultInterruptCPUs returns irqaffinity= of the command line with the boot CPU, or "".
func defaultInterruptCPUs(proc Dir) string {
	line, _ := proc.Read("cmdline")
	boot, _ := noise.ParseBoot(line, cpuset.MaxCPUs) // the kernel ignores invalid lists, too
	if boot.Interrupts.IsEmpty() {
		return ""
	}
	return boot.Interrupts.Union(cpuset.Of(0)).String()
}

// defaultExcept returns the possible CPUs without the CPUs of files, or "" without such CPUs.
func defaultExcept(sys Dir, names ...string) string {
	text, err := sys.Read("devices/system/cpu/possible")
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

// isolatedCPUs returns the CPUs of isolated or nohz_full, from the kernel's command line.
func isolatedCPUs(sys Dir, names ...string) cpuset.Set {
	var all cpuset.Set
	for _, name := range names {
		if text, err := sys.Read("devices/system/cpu/" + name); err == nil {
			if set, err := cpuset.Parse(strings.TrimSpace(text)); err == nil { // "(null)" is empty
				all = all.Union(set)
			}
		}
	}
	return all
}
