package switches

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	tracefs = "/sys/kernel/tracing"
	event   = "events/sched/sched_switch"
	// bufferKB is the size of the buffer of a CPU, for about 900,000 switches. If they do not fit, Stop fails. A quiet host
	// makes 140,000 switches a minute on one CPU.
	bufferKB = 65536
)

// Recorder records the switches of some CPUs.
type Recorder struct {
	dir    string
	cpus   cpuset.Set
	layout Layout
}

// Start begins to record on CPUs below 64. It needs tracefs at its usual place.
func Start(cpus cpuset.Set) (_ *Recorder, err error) {
	r := &Recorder{dir: filepath.Join(tracefs, "instances", "switches-"+strconv.Itoa(os.Getpid())), cpus: cpus}
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make tracing instance: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	format, err := os.ReadFile(filepath.Join(r.dir, event, "format"))
	if err != nil {
		return nil, err
	}
	if r.layout, err = ParseLayout(format); err != nil {
		return nil, err
	}
	var mask uint64
	for cpu := range cpus.All() {
		mask |= 1 << cpu
	}
	for _, setting := range [][2]string{
		{"tracing_on", "0"},
		{"trace_clock", "mono"},
		{"options/overwrite", "0"}, // a full buffer loses the newest events and counts them
		{"buffer_size_kb", strconv.Itoa(bufferKB)},
		{"tracing_cpumask", strconv.FormatUint(mask, 16)},
		{event + "/enable", "1"},
		{"tracing_on", "1"},
	} {
		if err := r.set(setting[0], setting[1]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Recorder) set(file, value string) error {
	if err := os.WriteFile(filepath.Join(r.dir, file), []byte(value), 0); err != nil {
		return fmt.Errorf("set %s of the tracing instance to %s: %w", file, value, err)
	}
	return nil
}

// Stop ends the record and returns the switches of each CPU in order. The error is ErrLost if the buffer was too small.
func (r *Recorder) Stop() (_ map[int][]Switch, err error) {
	if err := r.set("tracing_on", "0"); err != nil {
		return nil, err
	}
	all := make(map[int][]Switch)
	for cpu := range r.cpus.All() {
		dir := filepath.Join(r.dir, "per_cpu", "cpu"+strconv.Itoa(cpu))
		stats, err := os.ReadFile(filepath.Join(dir, "stats"))
		if err != nil {
			return nil, err
		}
		for _, zero := range []string{"overrun: 0\n", "dropped events: 0\n"} {
			if !strings.Contains(string(stats), zero) {
				return nil, fmt.Errorf("read trace of CPU %d: %w: %s", cpu, ErrLost, stats)
			}
		}
		if all[cpu], err = r.read(filepath.Join(dir, "trace_pipe_raw")); err != nil {
			return nil, fmt.Errorf("read trace of CPU %d: %w", cpu, err)
		}
	}
	return all, nil
}

func (r *Recorder) read(name string) (all []Switch, err error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	page := make([]byte, os.Getpagesize())
	for range 2 * bufferKB * 1024 / len(page) { // more pages than the buffer has
		n, err := unix.Read(fd, page)
		if errors.Is(err, unix.EAGAIN) || err == nil && n == 0 {
			return all, nil
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		some, err := ParsePage(page[:n], r.layout)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return nil, errors.New("the ring buffer has no end")
}

// Close ends the record and removes the tracing instance.
func (r *Recorder) Close() error {
	off := r.set(event+"/enable", "0")
	return errors.Join(off, os.Remove(r.dir))
}
