package latency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/latency"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const own = "instances/cpupoold-latency"

var errInjected = errors.New("injected")

// tracing is a fake tracefs.
type tracing struct {
	mu     sync.Mutex
	files  map[string]string
	trace  string // text of each trace
	writes int    // made so far
	fail   int    // number of the write that fails, with all later changes
}

func newTracing() *tracing {
	return &tracing{
		files: map[string]string{
			"available_tracers": "timerlat osnoise hwlat function nop\n", "current_tracer": "nop\n", "tracing_thresh": "0\n",
			"osnoise/cpus": "0-7\n", "osnoise/options": "DEFAULTS OSNOISE_WORKLOAD NO_PANIC_ON_STOP \n",
			"osnoise/period_us": "1000000\n", "osnoise/runtime_us": "1000000\n", "osnoise/timerlat_period_us": "500\n",
			"osnoise/stop_tracing_us": "0\n", "osnoise/stop_tracing_total_us": "20\n", "osnoise/print_stack": "0\n",
		},
		trace: "sample_threshold: start 1.000000000 duration 9000 ns interference 0\n",
	}
}

func (f *tracing) Read(name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, there := f.files[filepath.Clean(name)]
	if !there {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

func (f *tracing) changes() error {
	if f.writes++; f.fail > 0 && f.writes >= f.fail {
		return errInjected
	}
	return nil
}

func (f *tracing) Write(name, value string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.files[name]; !there {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err := f.changes(); err != nil {
		return err
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimSpace(f.files[name]))
		return n
	}
	n, _ := strconv.Atoi(value)
	if name == "osnoise/period_us" && n < number("osnoise/runtime_us") || name == "osnoise/runtime_us" && n > number("osnoise/period_us") {
		return fmt.Errorf("write %s: %w", name, unix.EINVAL)
	}
	f.files[name] = value + "\n"
	return nil
}

func (f *tracing) Mkdir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.changes(); err != nil {
		return err
	}
	for _, file := range []string{"current_tracer", "tracing_on", "buffer_size_kb", "options/context-info", "per_cpu/cpu4/buffer_size_kb", "per_cpu/cpu5/buffer_size_kb"} {
		f.files[name+"/"+file] = "1\n"
	}
	for _, event := range []string{"irq_noise", "softirq_noise", "thread_noise", "nmi_noise", "sample_threshold"} {
		f.files[name+"/events/osnoise/"+event+"/enable"] = "0\n"
	}
	f.files[name+"/current_tracer"], f.files[name+"/available_tracers"] = "nop\n", f.files["available_tracers"]
	return nil
}

func (f *tracing) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.changes(); err != nil {
		return err
	}
	if f.files[name+"/current_tracer"] != "nop\n" {
		return errors.New("busy")
	}
	maps.DeleteFunc(f.files, func(file, _ string) bool { return strings.HasPrefix(file, name+"/") })
	return nil
}

func (f *tracing) List(string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for file := range f.files {
		if parts := strings.Split(file, "/"); parts[0] == "instances" && !slices.Contains(names, parts[1]) {
			names = append(names, parts[1])
		}
	}
	return names, nil
}

func (f *tracing) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.trace)), nil
}

func options(t *testing.T, f *tracing) latency.Options {
	return latency.Options{
		Tracer: "osnoise", CPUs: cpuset.Range(4, 5), Duration: 10 * time.Second, Threshold: 5 * time.Microsecond,
		StateDir: t.TempDir(), Boot: "boot-1", TraceFS: f,
	}
}

// TestRun checks the result, and that all settings have their former values at the end.
func TestRun(t *testing.T) {
	for tracer, want := range map[string][]string{
		"osnoise":  {`osnoise/cpus: "4-5", was "0-7"`, `osnoise/stop_tracing_total_us: "0", was "20"`, `tracing_thresh: "5", was "0"`, `osnoise/runtime_us: "100000", was "1000000"`, `osnoise/period_us: "100000", was "1000000"`},
		"timerlat": {`osnoise/cpus: "4-5", was "0-7"`, `osnoise/stop_tracing_total_us: "0", was "20"`, `osnoise/timerlat_period_us: "1000", was "500"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newTracing()
			before := maps.Clone(f.files)
			o := options(t, f)
			o.Tracer = tracer
			during := make(map[string]string)
			seconds := 0
			o.Progress = func(time.Duration) {
				seconds++
				maps.Copy(during, f.files)
			}
			r, err := latency.Run(t.Context(), o)
			if err != nil || r.Seconds != 10 || len(r.PerCPU) != 2 || len(r.Gaps) != 2 || r.PerCPU[1].CPU != 5 || r.Ended != "" {
				t.Errorf("%s: %+v, %v; want two CPUs with a gap each", tracer, r, err)
			}
			if d := cmp.Diff(want, r.Changed); d != "" {
				t.Errorf("%s: changes (-want +got):\n%s", tracer, d)
			}
			if d := cmp.Diff(before, f.files); d != "" {
				t.Errorf("%s: settings after it (-before +after):\n%s", tracer, d)
			}
			if during[own+"/current_tracer"] != tracer+"\n" || during[own+"/tracing_on"] != "1\n" || during["osnoise/cpus"] != "4-5\n" || during[own+"/options/context-info"] != "0\n" {
				t.Errorf("%s: settings during it: %v", tracer, during)
			}
			if seconds < 9 {
				t.Errorf("%s: progress called %d times; want each second", tracer, seconds)
			}
			if _, err := os.Stat(filepath.Join(o.StateDir, "latency.json")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: journal after the end: %v", tracer, err)
			}
		})
	}
}

// TestRunPeriods checks that the period and the runtime of osnoise are set and restored in an order that the kernel
// accepts.
func TestRunPeriods(t *testing.T) {
	for _, p := range [][2]string{{"2000000", "1500000"}, {"50000", "20000"}, {"100000", "100000"}, {"1000000", "50000"}} {
		synctest.Test(t, func(t *testing.T) {
			f := newTracing()
			f.files["osnoise/period_us"], f.files["osnoise/runtime_us"] = p[0]+"\n", p[1]+"\n"
			before := maps.Clone(f.files)
			if _, err := latency.Run(t.Context(), options(t, f)); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			if d := cmp.Diff(before, f.files); d != "" {
				t.Errorf("%v (-before +after):\n%s", p, d)
			}
		})
	}
}

// TestRunEnds checks the ends before the time: a signal, and an owner.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTracing()
		before := maps.Clone(f.files)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		r, err := latency.Run(ctx, options(t, f))
		if err != nil || r.Seconds != 3 || r.Ended != "a signal" || !cmp.Equal(before, f.files) {
			t.Errorf("signal: %+v, %v, %s", r, err, cmp.Diff(before, f.files))
		}
		o, checks := options(t, f), 0
		o.CheckInterval = 2 * time.Second
		o.Check = func(context.Context) string {
			if checks++; checks < 3 {
				return ""
			}
			return "CPU 4 belongs to du"
		}
		r, err = latency.Run(t.Context(), o)
		if err != nil || r.Seconds != 6 || r.Ended != "CPU 4 belongs to du" || !cmp.Equal(before, f.files) {
			t.Errorf("owner: %+v, %v, %s", r, err, cmp.Diff(before, f.files))
		}
	})
}

// TestRunFails lets each change in turn fail, with all later ones, as a kill at this moment does. The next run removes
// the remains.
func TestRunFails(t *testing.T) {
	for fail := 1; ; fail++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			f := newTracing()
			before := maps.Clone(f.files)
			o := options(t, f)
			f.fail = fail
			_, err := latency.Run(t.Context(), o)
			if done = err == nil; done {
				return
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("change %d fails: %v", fail, err)
			}
			changed := !cmp.Equal(before, f.files)
			f.fail = 0
			r, err := latency.Run(t.Context(), o)
			if d := cmp.Diff(before, f.files); err != nil || d != "" {
				t.Errorf("run after a failure of change %d: %v (-before +after):\n%s", fail, err, d)
			}
			if changed && len(r.Cleaned) == 0 || len(r.Kept) > 0 {
				t.Errorf("run after a failure of change %d: %+v; want the remains that it removed", fail, r)
			}
		})
		if done {
			if fail < 20 {
				t.Errorf("a run has %d changes; want the instance, the events, the settings and their restoration", fail-1)
			}
			return
		}
	}
}

// TestRunCleansFirst checks that the remains of a killed run are removed even if no CPU can be measured.
func TestRunCleansFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTracing()
		before := maps.Clone(f.files)
		o := options(t, f)
		f.fail = 20 // after the start of the tracer
		if _, err := latency.Run(t.Context(), o); !errors.Is(err, errInjected) || cmp.Equal(before, f.files) {
			t.Errorf("killed run: %v, and no remains; want some", err)
		}
		f.fail = 0
		o.Choose = func(context.Context) (cpuset.Set, error) { return cpuset.Set{}, errInjected }
		r, err := latency.Run(t.Context(), o)
		if d := cmp.Diff(before, f.files); !errors.Is(err, errInjected) || d != "" || len(r.Cleaned) < 2 {
			t.Errorf("run without CPUs: %v, removed %q (-before +after):\n%s", err, r.Cleaned, d)
		}
	})
}

// TestRunAfterBoot checks that settings of an earlier boot are not restored, and that a value of another process is kept.
func TestRunAfterBoot(t *testing.T) {
	const journal = `{"Boot":"boot-1","Changes":[{"File":"osnoise/cpus","From":"0-7","To":"2"},{"File":"tracing_thresh","From":"0","To":"9"}]}`
	for boot, want := range map[string]string{"boot-1": "0-7", "boot-2": "2"} {
		synctest.Test(t, func(t *testing.T) {
			f := newTracing()
			f.files["osnoise/cpus"], f.files["tracing_thresh"] = "2\n", "77\n"
			o := options(t, f)
			if err := os.WriteFile(filepath.Join(o.StateDir, "latency.json"), []byte(journal), 0o600); err != nil { //nolint:forbidigo // a test's file
				t.Fatal(err)
			}
			o.Boot = boot
			r, err := latency.Run(t.Context(), o)
			if got := strings.TrimSpace(f.files["osnoise/cpus"]); err != nil || got != want || f.files["tracing_thresh"] != "77\n" {
				t.Errorf("%s: CPUs %s, threshold %s, %v; want %s and 77", boot, got, f.files["tracing_thresh"], err, want)
			}
			if kept := len(r.Kept) == 1; kept != (boot == "boot-1") {
				t.Errorf("%s: kept %v", boot, r.Kept)
			}
			cleaned := strings.Join(r.Cleaned, "\n")
			if restored := strings.Contains(cleaned, "osnoise/cpus"); restored != (boot == "boot-1") || strings.Contains(cleaned, "tracing_thresh") {
				t.Errorf("%s: cleaned %q; want the restored setting only", boot, cleaned)
			}
		})
	}
}

// TestRunKeepsPeriod checks that later runs measure after another process has set the period. The kernel refuses
// the former runtime with this period.
func TestRunKeepsPeriod(t *testing.T) {
	const journal = `{"Boot":"boot-1","Changes":[{"File":"osnoise/runtime_us","From":"900000","To":"100000"},{"File":"osnoise/period_us","From":"1000000","To":"100000"}]}`
	synctest.Test(t, func(t *testing.T) {
		f := newTracing()
		f.files["osnoise/runtime_us"], f.files["osnoise/period_us"] = "100000\n", "200000\n"
		o := options(t, f)
		if err := os.WriteFile(filepath.Join(o.StateDir, "latency.json"), []byte(journal), 0o600); err != nil { //nolint:forbidigo // a test's file
			t.Fatal(err)
		}
		r, err := latency.Run(t.Context(), o)
		if err != nil || len(r.Kept) != 2 || len(r.Cleaned) != 0 || r.Seconds != 10 {
			t.Errorf("%+v, %v; want a measurement, and both settings kept", r, err)
		}
		if f.files["osnoise/runtime_us"] != "100000\n" || f.files["osnoise/period_us"] != "200000\n" {
			t.Errorf("runtime %q, period %q; want those of the other process", f.files["osnoise/runtime_us"], f.files["osnoise/period_us"])
		}
	})
}

// TestRunRefuses checks the reasons not to start. None of them changes a setting.
func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]string // files; "-" removes one
		want string
	}{
		"no tracefs":       {map[string]string{"available_tracers": "-"}, "mount -t tracefs"},
		"no tracer":        {map[string]string{"available_tracers": "blk function nop\n"}, "the kernel lacks the tracer osnoise; it has: blk function nop"},
		"other tracer":     {map[string]string{"current_tracer": "function\n"}, "the tracer function is in use in /sys/kernel/tracing/."},
		"other instance":   {map[string]string{"instances/rtla/current_tracer": "timerlat\n"}, "the tracer timerlat is in use in /sys/kernel/tracing/instances/rtla"},
		"other options":    {map[string]string{"osnoise/options": "NO_DEFAULTS NO_OSNOISE_WORKLOAD\n"}, "osnoise/options"},
		"unreadable value": {map[string]string{"osnoise/runtime_us": "x\n"}, "osnoise/runtime_us"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newTracing()
			for file, text := range c.set {
				if f.files[file] = text; text == "-" {
					delete(f.files, file)
				}
			}
			before := maps.Clone(f.files)
			_, err := latency.Run(t.Context(), options(t, f))
			if err == nil || !strings.Contains(err.Error(), c.want) || f.writes > 0 || !cmp.Equal(before, f.files) {
				t.Errorf("%s: %v after %d writes; want an error with %q", name, err, f.writes, c.want)
			}
		})
	}
}

// TestRunTwice checks that a second measurement at the same time is refused, and changes nothing.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTracing()
		o := options(t, f)
		second := o
		var refused error
		once := sync.OnceFunc(func() { _, refused = latency.Run(t.Context(), second) })
		o.Progress = func(time.Duration) { once() }
		if _, err := latency.Run(t.Context(), o); err != nil {
			t.Error(err)
		}
		if refused == nil || !strings.Contains(refused.Error(), "another measurement is running") {
			t.Errorf("second run: %v; want a refusal", refused)
		}
	})
}
