// Instructions counts what some benchmarks execute, and prints it as go test prints its
// figures. Counts are the same whatever else the machine does, so that they can be held
// against a record: more work that allocates nothing shows in them alone.
//
// A benchmark is run under valgrind twice, the second time with some more iterations; what
// that run executes beyond the first is due to those. All else (start of the process,
// preparations of the benchmark) is in both and cancels out.
//
//	go run ./cmd/instructions BINARIES ROOT
//
// BINARIES is a directory with the test binaries that go test -c makes, NAME.test, and ROOT
// that of the repository.
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

// subject is a benchmark to count. The number of iterations more is such that they are most
// of what is executed, some 30 million instructions: what the runtime does by time is in every
// run and varies by half a million.
type subject struct {
	pkg, name string
	more      int
}

// subjects are the benchmarks of what happens often or takes long on a node with many
// containers. Each costs seconds: it is not for all benchmarks. Those that make system calls vary by
// a fifth: the runtime takes another path when one was slow.
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
		{"bench", "CPUSet/parse/512/cpupoold", 1000},
		{"bench", "CPUSet/format/512/cpupoold", 1000},
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "instructions: give the directory of the test binaries, and that of the repository")
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

// figure is what is printed of a benchmark.
func figure(s subject, n float64) string {
	return fmt.Sprintf("pkg: %s/%s\nBenchmark%s-1 \t%8d\t%12.0f instructions/op\n", module, s.pkg, s.name, s.more, n)
}

// few is how many iterations the first run has: go test makes one to begin with in any case.
const few = 2

// perOp is how many instructions an iteration takes.
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
