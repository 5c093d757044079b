package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const usage = `usage: jitter [compare] [-duration D] [-cpu N] [-settle D] [-with COMMAND] [-json FILE]
       jitter measure [-duration D] [-cpu N] [-settle D]
       jitter load

compare measures under load, first on CPU N without cpupoold, and then in the process that
COMMAND starts. COMMAND gets "measure" and its flags as further arguments. The default
starts the unit cpupoold-jitter.service, which cpupoold's configuration must name
(docs/how-to/measure-jitter.md). measure prints one measurement as JSON, which it begins when it has
waited, for -settle, to be put on its CPUs. load keeps a CPU busy.
`

// settling is the time that cpupoold gets to find and place a new process.
const settling = 3 * time.Second

// unit is the unit of the default command, and slice its slice. A slice has the CPUs of its
// units, and in system.slice all host services might run on them.
const unit, slice = "cpupoold-jitter.service", "jitter.slice"

func main() {
	// Go itself must not interrupt the measuring loop.
	if !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1") {
		program, err := os.Executable()
		if err == nil {
			err = syscall.Exec(program, os.Args, append(os.Environ(), "GODEBUG=asyncpreemptoff=1"))
		}
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "jitter:", err)
	os.Exit(1)
}

// run runs a command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	command := "compare"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	f := flag.NewFlagSet("jitter", flag.ContinueOnError)
	f.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	duration := f.Duration("duration", 30*time.Second, "")
	cpu := f.Int("cpu", -1, "")
	settle := f.Duration("settle", 0, "")
	with := f.String("with", "", "")
	file := f.String("json", "", "")
	if err := f.Parse(args); err != nil {
		return flag.ErrHelp
	}
	if f.NArg() > 0 || *duration <= 0 {
		f.Usage()
		return flag.ErrHelp
	}
	switch command {
	case "measure":
		select {
		case <-time.After(*settle):
		case <-ctx.Done():
			return ctx.Err()
		}
		m, err := measure(*cpu, *duration)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(m)
	case "load":
		burn(ctx)
		return nil
	case "compare":
		if *settle <= 0 {
			*settle = settling
		}
		r, err := compare(ctx, *cpu, *duration, *settle, strings.Fields(*with))
		if err != nil {
			return err
		}
		if *file != "" {
			if err := save(*file, r); err != nil {
				return err
			}
		}
		return r.print(out)
	}
	f.Usage()
	return flag.ErrHelp
}

func save(name string, r *Report) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(r.json(f), f.Close())
}

// compare measures without and with, under load.
func compare(ctx context.Context, cpu int, duration, settle time.Duration, with []string) (*Report, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &Report{Load: runtime.NumCPU(), Others: make(map[string]string)}
	end, err := load(ctx, program, r.Load)
	defer end()
	if err != nil {
		return nil, err
	}
	flags := []string{"measure", "-duration", duration.String()}
	if r.Without, err = ask(ctx, append([]string{program}, append(flags, "-cpu", strconv.Itoa(cpu))...)); err != nil {
		return nil, err
	}
	if len(with) == 0 {
		if err := configured(); err != nil {
			r.Why = err.Error()
			return r, others(ctx, r, duration)
		}
		with = []string{"systemd-run", "--quiet", "--pipe", "--wait", "--collect", "--unit=" + unit, "--slice=" + slice, program}
	}
	if r.With, err = ask(ctx, append(with, append(flags, "-settle", settle.String())...)); err != nil {
		r.With, r.Why = nil, err.Error()
	}
	return r, others(ctx, r, duration)
}

// configured returns an error if the default command cannot work here.
func configured() error {
	if _, err := exec.LookPath("systemd-run"); err != nil {
		return fmt.Errorf("find systemd-run; set -with to a command that starts it on an exclusive CPU: %w", err)
	}
	if os.Getuid() != 0 {
		return errors.New("systemd-run needs root here")
	}
	out, err := exec.Command("cpupoold", "plan", "-o", "json").Output()
	switch {
	case err != nil:
		return fmt.Errorf("cpupoold plan: %w; put cpupoold into PATH, and units: {%s: {cpus: 2}} into its configuration", err, unit)
	case !strings.Contains(string(out), unit):
		return fmt.Errorf("cpupoold's configuration has no units: {%s: {cpus: 2}}", unit)
	}
	return nil
}

// ask runs a command that prints a measurement.
func ask(ctx context.Context, command []string) (*Measurement, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	m := new(Measurement)
	if err := json.Unmarshal(out, m); err != nil || m.Duration <= 0 {
		return nil, fmt.Errorf("%s: it prints no measurement: %.80q", strings.Join(command, " "), out)
	}
	return m, nil
}

// load starts busy processes, which may run everywhere where this one may.
func load(ctx context.Context, program string, n int) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range n {
		cmd := exec.CommandContext(ctx, program, "load")
		if err = cmd.Start(); err != nil {
			break
		}
		all.Go(func() { _ = cmd.Wait() }) // it is ended by the context
	}
	return func() { cancel(); all.Wait() }, err
}

// burn keeps a CPU busy, and with some memory its caches.
func burn(ctx context.Context) {
	buffer := make([]uint64, 1<<18)
	for x := uint64(1); ctx.Err() == nil; {
		for i := range buffer {
			x = x*6364136223846793005 + 1442695040888963407
			buffer[x>>46] += uint64(i)
		}
	}
}

// others runs rt-tests' programs on the same CPU as the last measurement, where they are
// installed.
func others(ctx context.Context, r *Report, duration time.Duration) error {
	m := r.Without
	seconds, cpu := strconv.Itoa(max(1, int(duration.Seconds()))), strconv.Itoa(m.CPU)
	for name, args := range map[string][]string{
		"cyclictest": {"-q", "-m", "-t1", "-p80", "-a" + cpu, "-D" + seconds},
		"oslat":      {"--cpu-list", cpu, "--duration", seconds + "s", "-q"},
	} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		text := strings.TrimSpace(string(out))
		if err != nil {
			text += "\n" + err.Error()
		}
		r.Others[name+" on CPU "+cpu+", without"] = text
	}
	return ctx.Err()
}
