package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// process is a test binary with the directory of its package, its arguments and its
// environment.
type process struct {
	binary, dir string
	env         []string
}

// count runs a benchmark and returns how many instructions the process has executed.
//
// Cachegrind without its caches is the fastest of valgrind's tools that count (3.19: 5 ns for
// an instruction).
func (p process) count(ctx context.Context, name string, iterations int) (uint64, error) {
	cmd := exec.CommandContext(ctx, "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--vgdb=no",
		p.binary, "-test.run=^$", "-test.bench="+pattern(name), "-test.benchtime="+strconv.Itoa(iterations)+"x")
	cmd.Dir, cmd.Env = p.dir, p.env
	var figures, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &figures, &log
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("run %s: %w\n%s%s", cmd, err, figures.String(), log.String())
	}
	if !ran(figures.String(), name) {
		return 0, fmt.Errorf("%s has no such benchmark", p.binary)
	}
	return references(log.String())
}

// environment returns the environment of processes, so that they execute the same
// instructions each time. It disables garbage collection, further threads, and timer
// signals. Some parts of the runtime exist for several kinds of CPU: memmove, comparison,
// hashes. The environment selects the most basic ones, because valgrind's CPU features
// depend on the machine.
func environment(of []string) []string {
	env := []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,cpu.all=off"}
	for _, e := range of {
		if !strings.HasPrefix(e, "GO") {
			env = append(env, e)
		}
	}
	return env
}

// pattern matches one benchmark alone.
func pattern(name string) string {
	parts := strings.Split("Benchmark"+name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// ran reports whether a benchmark is in the output of a test binary, which has no error for a
// missing one.
func ran(figures, name string) bool {
	for line := range strings.Lines(figures) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "Benchmark"+name {
			return true
		}
	}
	return false
}

// references reads the sum that cachegrind prints at the end: "==12== I   refs:      1,234".
func references(log string) (uint64, error) {
	for line := range strings.Lines(log) {
		before, after, ok := strings.Cut(line, "refs:")
		if !ok || !strings.HasSuffix(strings.TrimSpace(before), " I") {
			continue
		}
		n, err := strconv.ParseUint(strings.ReplaceAll(strings.TrimSpace(after), ",", ""), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read what valgrind prints: %w", err)
		}
		return n, nil
	}
	return 0, errors.New(`valgrind printed no line with "I refs:"; its log:` + "\n" + log)
}
