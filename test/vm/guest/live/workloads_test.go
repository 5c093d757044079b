//go:build guest

package live_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var (
	// btf is a flag, and not a subtest: a process reads the type information once.
	btf    = flag.Bool("btf", true, "let the process read the type information of the kernel (BTF)")
	minute = flag.Duration("minute", time.Minute, "duration of TestMinute")
)

// workload is the variable of the environment that chooses the work of a child process.
const workload = "LIVE_WORKLOAD"

// Workloads. A child reads a command from each line of its input, and answers with a line.
const (
	spinner = "spinner" // spins on a CPU: "CPU DURATION"
	pair    = "pair"    // two threads that wake each other: "ROUNDS"
	busy    = "busy"    // spins and sleeps in turn, without commands
	watcher = "watcher" // loads the program and watches a CPU: "CPU CGROUP"
)

func TestMain(m *testing.M) {
	if os.Getenv(workload) == "" {
		flag.Parse()
		if err := unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil {
			fmt.Println("mount tracefs:", err)
			os.Exit(1)
		}
		if !*btf {
			if err := hideBTF(); err != nil {
				fmt.Println("hide BTF:", err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	if err := work(os.Getenv(workload)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// hideBTF mounts an empty directory over the directory of type information.
func hideBTF() error {
	empty, err := os.MkdirTemp("", "btf")
	if err != nil {
		return err
	}
	return unix.Mount(empty, "/sys/kernel/btf", "", unix.MS_BIND, "")
}

func work(name string) error {
	runtime.LockOSThread()
	if err := os.WriteFile("/proc/thread-self/comm", []byte(name), 0); err != nil {
		return err
	}
	if name == busy {
		return spinAndSleep()
	}
	if name == spinner {
		if err := stayHome(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer, err := command(name, strings.Fields(in.Text()))
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

func command(name string, args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	switch name {
	case spinner:
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return "", err
		}
		return spin(n, d)
	case pair:
		return "done", wakeEachOther(n)
	default:
		return "watching", watch(n, args[1])
	}
}

// spin uses the duration of CPU time on a CPU.
func spin(cpu int, d time.Duration) (string, error) {
	if err := allow(0, cpuset.Of(cpu)); err != nil {
		return "refused: " + err.Error(), nil //nolint:nilerr // the refusal is the result
	}
	begin, err := cpuTime()
	for now := begin; err == nil && now-begin < d; now, err = cpuTime() {
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint("spun ", unix.Gettid()), allow(0, home)
}

func cpuTime() (time.Duration, error) { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(id, &t)
	return time.Duration(t.Nano()), err
}

// stayHome keeps all threads of the process off the CPUs of owners.
func stayHome() error {
	for range 2 { // the second round finds threads that the first one has missed
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			return err
		}
		for _, dir := range tasks {
			tid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				return err
			}
			if err := allow(tid, home); err != nil {
				return err
			}
		}
	}
	return nil
}

// allow sets the affinity of a thread; 0 is the calling one.
func allow(tid int, cpus cpuset.Set) error {
	var mask unix.CPUSet
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinity(tid, &mask)
}

// wakeEachOther makes at least two switches in a round: the threads share a CPU.
func wakeEachOther(rounds int) error {
	var there, back [2]int
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe(p[:]); err != nil {
			return err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	pass := func(from, to int) error {
		var b [1]byte
		for range rounds {
			if from == back[0] { // this thread begins
				if _, err := unix.Write(to, b[:]); err != nil {
					return err
				}
			}
			if _, err := unix.Read(from, b[:]); err != nil {
				return err
			}
			if from == there[0] {
				if _, err := unix.Write(to, b[:]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	other := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // the thread must not end: its number shows later that it is an owner's
		other <- pass(there[0], back[1])
	}()
	if err := pass(back[0], there[1]); err != nil {
		return err
	}
	return <-other
}

// spinAndSleep works until the process is killed.
func spinAndSleep() error {
	fmt.Println("ready")
	for {
		begin, err := cpuTime()
		for now := begin; err == nil && now-begin < time.Millisecond; now, err = cpuTime() {
		}
		pause := unix.NsecToTimespec(100_000)
		if err != nil {
			return err
		}
		if err := unix.Nanosleep(&pause, nil); err != nil && err != unix.EINTR {
			return err
		}
	}
}

func watch(cpu int, group string) error {
	p, err := schedwatch.Open(mount, cpus)
	if err != nil {
		return err
	}
	running = p
	_, err = p.Own([]schedwatch.Owner{{CPUs: cpuset.Of(cpu), Cgroups: []string{group}}})
	return err
}

// running keeps the program of a watcher.
var running *schedwatch.Program
