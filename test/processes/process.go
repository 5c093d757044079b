package processes

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// maxLog is the maximum of a program's output that a failed test prints, in bytes.
const maxLog = 8000

// Process is a program that the test ends.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs a program. A failed test prints its output.
func Start(t *testing.T, name, program string, args ...string) *Process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{exec.Command(program, args...), make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its log has the reason
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			text, err := os.ReadFile(log.Name())
			t.Logf("log of %s (%v):\n%s", name, err, text[max(0, len(text)-maxLog):])
		}
		log.Close()
	})
	return p
}

// PID returns the ID of the program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the program at once, as a machine that loses power does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // may have ended
	<-p.done
}

// End signals the program to end and waits for it until the timeout.
func (p *Process) End(t *testing.T, timeout time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(timeout):
		t.Fatalf("%s does not end before the timeout", p.cmd.Path)
	}
}

// FreeAddress returns an unused host:port of this machine.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Write writes a file that only its owner reads.
func Write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Eventually calls ask until it returns no error, or until the timeout.
func Eventually(t *testing.T, timeout time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
