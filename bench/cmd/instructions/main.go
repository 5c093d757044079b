// Instructions counts the instructions of some benchmarks, and prints them as go test prints
// its figures. Counts do not depend on the load of the machine, so that they can be compared
// with a record: more work without allocations is visible in them alone.
//
// A benchmark runs under valgrind twice, the second time with some more iterations. These
// iterations cause the difference between both runs. All other work (start of the process,
// preparations of the benchmark) is in both and cancels out.
//
//	go run ./cmd/instructions BINARIES ROOT
//
// BINARIES is a directory with the test binaries that go test -c makes, NAME.test, and ROOT
// the directory of the repository.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
)

const module = "github.com/cpupoold/cpupoold"

// subject is a benchmark to count. The additional iterations execute some 30 million
// instructions, which is most of the run. The timed work of the runtime is in every run and
// varies by half a million.
type subject struct {
	pkg, name string
	more      int
}

// subjects lists the benchmarks of frequent or long operations on a node with many containers. The
// list is short, because each benchmark takes seconds. Benchmarks with system calls vary by a fifth:
// the runtime takes another path after a slow one.
func subjects() []subject {
	return []subject{
		{"pkg/allocate", "Take/8of1024", 300},
		{"pkg/allocate", "Take/200of1024caches", 50},
		{"pkg/cgroup", "Diff/unchanged", 20},
		{"pkg/cgroup", "Diff/moved", 1},
		{"pkg/cpuset", "Algebra/Union", 30000},
		{"pkg/cpuset", "Algebra/Difference", 30000},
		{"pkg/pools", "Build/1024cpu/500containers/cold", 20},
		{"pkg/pools", "Build/1024cpu/500containers/settled", 30},
		{"pkg/pools", "Build/1024cpu/500containers/unchanged", 200},
		{"internal/admission", "Mutate/management", 800},
		{"internal/plugin/size", "Plan/numa/300", 1},
		{"bench", "CPUSet/parse/512/cpupoold", 1000},
		{"bench", "CPUSet/format/512/cpupoold", 1000},
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "instructions: give the directories of the test binaries and of the repository")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	binaries, err := filepath.Abs(os.Args[1])
	if err == nil {
		err = run(ctx, binaries, os.Args[2], environment(os.Environ()), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binaries, root string, env []string, out io.Writer) error {
	if _, err := exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("find valgrind, which counts instructions: %w; install it (make host does, on Debian)", err)
	}
	for _, s := range subjects() {
		p := process{binary: filepath.Join(binaries, path.Base(s.pkg)+".test"), dir: filepath.Join(root, s.pkg), env: env}
		n, err := perOp(s, func(iterations int) (uint64, error) { return p.count(ctx, s.name, iterations) })
		if err != nil {
			return fmt.Errorf("count instructions of %s %s: %w", s.pkg, s.name, err)
		}
		if _, err := io.WriteString(out, figure(s, n)); err != nil {
			return err
		}
	}
	return nil
}

// figure returns the output line of a benchmark.
func figure(s subject, n float64) string {
	return fmt.Sprintf("pkg: %s/%s\nBenchmark%s-1 \t%8d\t%12.0f instructions/op\n", module, s.pkg, s.name, s.more, n)
}

// few is the number of iterations of the first run: go test begins with one in any case.
const few = 2

// perOp returns the number of instructions of an iteration.
func perOp(s subject, count func(iterations int) (uint64, error)) (float64, error) {
	first, err := count(few)
	if err != nil {
		return 0, err
	}
	second, err := count(few + s.more)
	if err != nil {
		return 0, err
	}
	if second <= first {
		return 0, fmt.Errorf("%d iterations took %d instructions, and %d took %d: is it the loop that does the work?", few, first, few+s.more, second)
	}
	return float64(second-first) / float64(s.more), nil
}
