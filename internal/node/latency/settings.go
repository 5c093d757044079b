package latency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

// Files in the directory for state.
const (
	lockFile    = "latency.lock"
	journalFile = "latency.json"
	maxJournal  = 1 << 20
)

// instance is the tracing instance of a measurement.
const instance = "instances/cpupoold-latency"

// change is a tracing setting that all instances share, with its value before and during a measurement.
type change struct {
	File, From, To string
}

func (c change) String() string { return fmt.Sprintf("%s: %q, was %q", c.File, c.To, c.From) }

// journal holds the settings that a killed measurement has changed. The values are valid for one boot.
type journal struct {
	Boot    string
	Changes []change
}

// state is the open directory for state, with its lock.
type state struct {
	dir  *confined.Dir
	lock *os.File
}

func openState(name string) (*state, error) {
	dir, err := confined.Open(name, 0o755)
	if err != nil {
		return nil, fmt.Errorf("open directory for state: %w", err)
	}
	f, err := dir.File(lockFile)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open lock: %w", err), dir.Close())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another measurement is running: wait for its end")
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", filepath.Join(name, lockFile), err), f.Close(), dir.Close())
	}
	return &state{dir, f}, nil
}

func (s *state) save(j journal) error {
	text, err := json.Marshal(j)
	if err == nil {
		err = s.dir.WriteDurably(journalFile, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save original tracing settings: %w", err)
	}
	return nil
}

func (s *state) forget() error {
	if err := s.dir.Remove(journalFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove saved tracing settings: %w", err)
	}
	return nil
}

// load returns the journal of a killed measurement of the same boot, or an empty one.
func (s *state) load(boot string) (journal, error) {
	text, err := s.dir.Read(journalFile, maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return journal{}, nil
	}
	var j journal
	if err == nil {
		err = json.Unmarshal(text, &j)
	}
	if err != nil {
		return journal{}, fmt.Errorf("read original tracing settings of an earlier measurement: %w; compare %s below /sys/kernel/tracing with your values, and remove the file %s",
			err, "osnoise/* and tracing_thresh", journalFile)
	}
	if j.Boot != boot {
		return journal{}, nil
	}
	return j, nil
}

// settings returns the changes of shared settings, in an order in which the kernel accepts each of them, also
// backwards. It omits settings that have their value already, and files that the kernel lacks.
func (t tracefs) settings(o *Options) ([]change, error) {
	want := [][2]string{
		{"osnoise/cpus", o.CPUs.String()},
		{"osnoise/stop_tracing_us", "0"},
		{"osnoise/stop_tracing_total_us", "0"},
		{"osnoise/print_stack", "0"},
	}
	if o.Tracer == timerlat {
		want = append(want, [2]string{"osnoise/timerlat_period_us", "1000"})
	} else {
		want = append(want, [2]string{"tracing_thresh", strconv.FormatInt(o.Threshold.Microseconds(), 10)})
		// The runtime must not exceed the period.
		period := [2]string{"osnoise/period_us", osnoisePeriod}
		runtime := [2]string{"osnoise/runtime_us", osnoisePeriod}
		text, err := t.value(runtime[0])
		if err != nil {
			return nil, err
		}
		now, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", runtime[0], err)
		}
		if to, _ := strconv.Atoi(osnoisePeriod); to >= now {
			want = append(want, period, runtime)
		} else {
			want = append(want, runtime, period)
		}
	}
	var all []change
	for _, w := range want {
		now, err := t.value(w[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case now != w[1]:
			all = append(all, change{w[0], now, w[1]})
		}
	}
	return all, nil
}

// restore puts the original values back, the last change first. It returns the settings that it has written,
// and those that keep their values, because another process has written since.
func (t tracefs) restore(changes []change) (written []change, kept []string, err error) {
	var failed []error
	for _, c := range slices.Backward(changes) {
		now, err := t.value(c.File)
		switch {
		case err != nil:
			failed = append(failed, err)
		case now == c.From: // never changed
		case now != c.To:
			kept = append(kept, fmt.Sprintf("%s: %q, which another process wrote; it was %q", c.File, now, c.From))
		default:
			err := t.Write(c.File, c.From)
			if errors.Is(err, unix.EINVAL) { // another process has changed the period or the runtime, so that both do not fit
				kept = append(kept, fmt.Sprintf("%s: %q, because the kernel refuses the former value %q together with the settings of another process", c.File, now, c.From))
				continue
			}
			if err != nil {
				failed = append(failed, err)
				continue
			}
			written = append(written, c)
		}
	}
	return written, kept, errors.Join(failed...)
}

// remove ends the tracer of the instance, and removes the instance. It returns false if no instance exists.
func (t tracefs) remove() (bool, error) {
	if _, err := t.value(instance + "/current_tracer"); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := t.Write(instance+"/current_tracer", nop); err != nil {
		return true, err
	}
	if err := t.Remove(instance); err != nil {
		return true, fmt.Errorf("%w; another process may read it: end that process, and run cpupoold latency again", err)
	}
	return true, nil
}

// value returns the content of a file without white space around it.
func (t tracefs) value(name string) (string, error) {
	text, err := t.Read(name)
	return strings.TrimSpace(text), err
}
