package latency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Names of tracers.
const (
	osnoise  = "osnoise"
	timerlat = "timerlat"
	nop      = "nop"
)

const (
	// osnoisePeriod is the period and the runtime of osnoise in microseconds. The kernel thread sees only at the
	// end of a period that another process waits to move it (osnoise_migration_pending in trace_osnoise.c,
	// Linux 6.12). With the kernel's default, the daemon would wait for up to a second.
	osnoisePeriod = "100000"
	// bufferSize is the buffer of each measured CPU in KiB: more than the events of a reading interval.
	bufferSize = "1024"
	// smallestBuffer is the buffer of all other CPUs.
	smallestBuffer  = "4"
	readingInterval = 100 * time.Millisecond
	// maxReading bounds the text that is read from a CPU before the next CPU.
	maxReading = 1 << 20
	// drainTimeout bounds the reading after the end.
	drainTimeout = 5 * time.Second
)

// Options configures Run.
type Options struct {
	Tracer string // osnoise or timerlat
	CPUs   cpuset.Set
	// Choose returns the CPUs, if it is not nil. Run calls it after the removal of the remains of a killed Run.
	Choose    func(ctx context.Context) (cpuset.Set, error)
	Duration  time.Duration
	Threshold time.Duration // shortest gap of osnoise
	// StateDir keeps the original settings, which a killed Run cannot restore. Boot identifies the boot
	// that the settings belong to.
	StateDir, Boot string
	// Check returns the reason why the measurement must end, or "". Run calls it at each CheckInterval, in
	// a goroutine of its own.
	Check         func(ctx context.Context) string
	CheckInterval time.Duration
	// Progress is called each second.
	Progress func(elapsed time.Duration)
	// TraceFS is the kernel's tracefs. Nil is the tracefs of this machine.
	TraceFS files
}

// files holds the files of the kernel's tracefs.
type files interface {
	Read(name string) (string, error)
	Write(name, value string) error
	Mkdir(name string) error
	Remove(name string) error
	// List returns the directories in a directory.
	List(name string) ([]string, error)
	// Open opens the text of a trace. Without further text, a read returns io.EOF.
	Open(name string) (io.ReadCloser, error)
}

// Run measures until the time is over, ctx ends or Check returns a reason. It first removes the remains of a
// killed Run. It restores all settings before it returns, and returns the findings until an error too.
func Run(ctx context.Context, o Options) (r Report, err error) {
	t := tracefs{o.TraceFS}
	if o.TraceFS == nil {
		t.files = kernelTracing
	}
	r = Report{Tracer: o.Tracer}
	if o.Tracer == osnoise {
		r.Threshold = uint64(o.Threshold)
	}
	if _, err := t.Read("available_tracers"); err != nil {
		return r, unreachable(err)
	}
	s, err := openState(o.StateDir)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.lock.Close(), s.dir.Close()) }()
	if err := t.clean(s, o.Boot, &r); err != nil {
		return r, err
	}
	if o.Choose != nil {
		if o.CPUs, err = o.Choose(ctx); err != nil {
			return r, err
		}
	}
	r.CPUs = o.CPUs
	if err := t.usable(o.Tracer); err != nil {
		return r, err
	}
	changes, err := t.settings(&o)
	if err != nil {
		return r, err
	}
	if err := s.save(journal{o.Boot, changes}); err != nil {
		return r, err
	}
	defer func() {
		_, failed := t.remove()
		_, kept, unrestored := t.restore(changes)
		r.Kept = append(r.Kept, kept...)
		if failed = errors.Join(failed, unrestored); failed == nil {
			failed = s.forget()
		} else {
			failed = fmt.Errorf("restore tracing settings: %w; the next cpupoold latency tries again", failed)
		}
		err = errors.Join(err, failed)
	}()
	for _, c := range changes {
		r.Changed = append(r.Changed, c.String())
	}
	if o.TraceFS == nil {
		leave(o.CPUs)
	}
	if err := t.prepare(&o, changes); err != nil {
		return r, err
	}
	err = t.measure(ctx, &o, &r)
	return r, err
}

func unreachable(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: mount the kernel's tracing files (mount -t tracefs tracefs /sys/kernel/tracing)", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: run as root; with kernel lockdown in mode confidentiality, no process can trace", err)
	}
	return err
}

// clean removes the remains of a killed measurement.
func (t tracefs) clean(s *state, boot string, r *Report) error {
	j, err := s.load(boot)
	if err != nil {
		return err
	}
	removed, err := t.remove()
	if err != nil {
		return fmt.Errorf("end the tracer of an earlier measurement: %w", err)
	}
	if removed {
		r.Cleaned = append(r.Cleaned, "tracing instance "+instance+" of an earlier measurement, with its tracer")
	}
	written, kept, err := t.restore(j.Changes)
	if err != nil {
		return fmt.Errorf("restore tracing settings of an earlier measurement: %w", err)
	}
	for _, c := range written {
		r.Cleaned = append(r.Cleaned, fmt.Sprintf("%s: %q again, was %q", c.File, c.From, c.To))
	}
	r.Kept = append(r.Kept, kept...)
	return s.forget()
}

// usable returns an error if the kernel lacks the tracer, or if another tracer is in use: all of them share
// settings, and each disturbs the results of the other.
func (t tracefs) usable(tracer string) error {
	known, err := t.value("available_tracers")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(known), tracer) {
		return fmt.Errorf("the kernel lacks the tracer %s; it has: %s. Use a kernel with CONFIG_%s_TRACER, for example linux-image-rt-amd64 of Debian", tracer, known, strings.ToUpper(tracer))
	}
	names, err := t.List("instances")
	if err != nil {
		return err
	}
	dirs := []string{"."}
	for _, name := range names {
		dirs = append(dirs, "instances/"+name)
	}
	for _, dir := range dirs {
		switch used, err := t.value(dir + "/current_tracer"); {
		case errors.Is(err, fs.ErrNotExist): // removed after the list of instances was read
		case err != nil:
			return err
		case used != nop:
			return fmt.Errorf("the tracer %s is in use in /sys/kernel/tracing/%s: end it first (echo nop > current_tracer)", used, dir)
		}
	}
	options, err := t.value("osnoise/options")
	if err == nil && !strings.HasPrefix(options, "DEFAULTS") {
		return fmt.Errorf("osnoise/options of the kernel differ from the default: %s. Another program may be using them; otherwise write DEFAULTS to the file", options)
	}
	if errors.Is(err, fs.ErrNotExist) { // before Linux 6.2
		return nil
	}
	return err
}

// prepare makes the instance, and starts the tracer.
func (t tracefs) prepare(o *Options, changes []change) error {
	if err := t.Mkdir(instance); err != nil {
		return fmt.Errorf("make tracing instance: %w", err)
	}
	known, err := t.value(instance + "/available_tracers")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(known), o.Tracer) {
		return fmt.Errorf("the kernel does not allow the tracer %s in a tracing instance: use a newer kernel, for example Linux 6.1", o.Tracer)
	}
	writes := [][2]string{
		{instance + "/tracing_on", "0"},
		{instance + "/buffer_size_kb", smallestBuffer},
		{instance + "/options/context-info", "0"},
	}
	for cpu := range o.CPUs.All() {
		writes = append(writes, [2]string{fmt.Sprintf("%s/per_cpu/cpu%d/buffer_size_kb", instance, cpu), bufferSize})
	}
	for _, event := range []string{"irq_noise", "softirq_noise", "thread_noise", "nmi_noise", "sample_threshold"} {
		writes = append(writes, [2]string{instance + "/events/osnoise/" + event + "/enable", "1"})
	}
	for _, c := range changes {
		writes = append(writes, [2]string{c.File, c.To})
	}
	writes = append(writes, [2]string{instance + "/current_tracer", o.Tracer}, [2]string{instance + "/tracing_on", "1"})
	for _, w := range writes {
		if err := t.Write(w[0], w[1]); err != nil {
			return err
		}
	}
	return nil
}

// measure reads the trace until the end, and puts the results into r.
func (t tracefs) measure(ctx context.Context, o *Options, r *Report) (err error) {
	var sources []source
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.text.Close())
			counts, gaps := s.parser.Result()
			r.PerCPU = append(r.PerCPU, counts)
			r.Gaps = append(r.Gaps, gaps...)
		}
		sortGaps(r.Gaps)
	}()
	for cpu := range o.CPUs.All() {
		text, err := t.Open(fmt.Sprintf("%s/per_cpu/cpu%d/trace_pipe", instance, cpu))
		if err != nil {
			return err
		}
		sources = append(sources, source{text, &Parser{CPU: cpu}})
	}
	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	reasons := make(chan string, 1)
	var checking sync.WaitGroup
	defer checking.Wait()
	defer cancel() // before the wait
	if o.Check != nil {
		checking.Go(func() { o.check(ctx, reasons) })
	}
	began := time.Now()
	if err := o.read(ctx, sources, reasons, r); err != nil {
		return err
	}
	r.Seconds = time.Since(began).Seconds()
	if err := t.Write(instance+"/tracing_on", "0"); err != nil {
		return err
	}
	for end := time.Now().Add(drainTimeout); time.Now().Before(end); {
		n, err := readAll(sources)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// read reads the trace until ctx ends or a reason to end arrives.
func (o *Options) read(ctx context.Context, sources []source, reasons <-chan string, r *Report) error {
	began := time.Now()
	tick := time.NewTicker(readingInterval)
	defer tick.Stop()
	shown := time.Duration(0)
	for {
		if _, err := readAll(sources); err != nil {
			return err
		}
		if elapsed := time.Since(began); o.Progress != nil && elapsed >= shown+time.Second {
			shown = elapsed
			o.Progress(elapsed)
		}
		select {
		case <-tick.C:
		case r.Ended = <-reasons:
			return nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				r.Ended = "a signal"
			}
			return nil
		}
	}
}

// check calls Check until ctx ends or the measurement must end.
func (o *Options) check(ctx context.Context, reasons chan<- string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(o.CheckInterval):
		}
		if reason := o.Check(ctx); reason != "" && ctx.Err() == nil {
			reasons <- reason
			return
		}
	}
}

type source struct {
	text   io.ReadCloser
	parser *Parser
}

// readAll reads the present text of all CPUs. It returns its length.
func readAll(sources []source) (n int64, err error) {
	for _, s := range sources {
		read, err := io.CopyN(s.parser, s.text, maxReading)
		if n += read; err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
	}
	return n, nil
}
