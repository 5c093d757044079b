package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/test/vm/internal/qmp"
	"github.com/cpupoold/cpupoold/test/vm/internal/tsc"
)

const emulator = "qemu-system-x86_64"

// guestCPU is a CPU with all features of TCG except la57 (five-level page tables), which only makes it slower.
const guestCPU = "max,la57=off"

// emulation is the number of host threads on which QEMU runs the guest's CPUs.
type emulation string

// A kernel that boots rewrites its own code (static keys). On many threads one CPU in some hundred boots still executes the
// breakpoint of a finished rewrite: "Oops: int3". So guests boot on one thread. Nodes continue from their snapshot on many threads,
// where the kernel rewrites no code: see quota.slice and task-switches.service in image/rootfs/etc/systemd/system.
const (
	oneThread   emulation = "tcg,thread=single"
	manyThreads emulation = "tcg,thread=multi"
)

// machineArgs returns the common arguments of all guests: emulated CPUs (the hosts of tests may lack KVM), a first serial port as
// console, and no default devices. QEMU 7.2 crashes guests with thread=multi.
func machineArgs(on emulation, console string) []string {
	return []string{
		"-machine", "q35", "-accel", string(on), "-cpu", guestCPU,
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-serial", "file:" + console,
		"-device", "virtio-rng-pci",
	}
}

// kernelCommandLine returns the command line of every guest's kernel. Messages go to the console, a panic ends QEMU, and work that only slows an
// emulated machine down is off. The kernel does not measure the rate of its clock: see package tsc.
func kernelCommandLine(args ...string) string {
	all := []string{
		"console=ttyS0", "panic=-1", "oops=panic", "net.ifnames=0", "mitigations=off", "nokaslr", "random.trust_cpu=1", "no_timer_check",
		"tsc=reliable",
	}
	if mhz := tsc.MHz(); mhz > 0 {
		all = append(all, fmt.Sprintf("tsc_early_khz=%d", mhz*1000))
	}
	return strings.Join(append(all, args...), " ")
}

// qemu is one running QEMU.
type qemu struct {
	monitor *qmp.Client
	events  chan qmp.Event // MIGRATION events
	resets  chan struct{}  // holds one element after RESET events
	exited  chan struct{}  // closed when the process is gone
	err     error          // how it ended, never nil; valid once exited is closed
	kill    context.CancelFunc
}

// startQEMU starts QEMU with args. It ends with kill, with quit, when the guest powers off, and at the latest
// with this process.
func startQEMU(ctx context.Context, args []string) (*qemu, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("make monitor socket: %w", err)
	}
	running, kill := context.WithCancel(context.Background())
	q := &qemu{events: make(chan qmp.Event, 64), resets: make(chan struct{}, 1), exited: make(chan struct{}), kill: kill}
	cmd := exec.CommandContext(running, emulator, append(args, "-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control")...)
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3 there
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go q.supervise(cmd, started)
	err = <-started
	theirs.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w (test/vm/image/prepare.sh installs it)", emulator, err), ours.Close())
	}
	q.monitor, err = qmp.New(ctx, ours, q.event)
	if err != nil {
		q.stop()
		return nil, errors.Join(err, q.err)
	}
	return q, nil
}

// supervise runs cmd on its own thread, because the parent whose end Pdeathsig reports is a thread, see prctl(2).
func (q *qemu) supervise(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	q.err = fmt.Errorf("%s: %s %s", emulator, exitText(cmd.Wait()), bytes.TrimSpace(stderr.Bytes()))
	close(q.exited)
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0" // a guest that powers off, or whose kernel panics
	}
	return err.Error()
}

func (q *qemu) event(e qmp.Event) {
	switch e.Name {
	case "MIGRATION":
		q.events <- e
	case "RESET":
		select {
		case q.resets <- struct{}{}:
		default: // one is enough
		}
	}
}

// stop ends QEMU at once and waits for it.
func (q *qemu) stop() {
	q.kill()
	<-q.exited
	if q.monitor != nil {
		q.monitor.Close()
	}
}

// sshPort returns the port on 127.0.0.1 that QEMU listens on for the guest's port 22. QEMU takes any free one: another process
// could take a port that is chosen beforehand.
func (q *qemu) sshPort(ctx context.Context) (string, error) {
	answer, err := q.monitor.Execute(ctx, "human-monitor-command", map[string]string{"command-line": "info usernet"})
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`TCP\[HOST_FORWARD\] +\d+ +127\.0\.0\.1 +(\d+)`).FindSubmatch(answer)
	if m == nil {
		return "", fmt.Errorf("find forwarded port in %q", answer)
	}
	return string(m[1]), nil
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "qmp"), os.NewFile(uintptr(fds[1]), "qmp")
	defer ours.Close() // FileConn duplicates it
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}
