// Command guestinit is PID 1 of a guest that consists of a kernel and one test binary. It mounts the kernel's file systems,
// enables every controller for the children of the root cgroup, runs the test binary and powers the machine off.
//
// The initramfs has /test/test, the binary, and /test/args.json, its arguments. The output of the binary goes to the second serial
// port, apart from the kernel's messages on the console.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	err := run()
	if err != nil {
		fmt.Println("guestinit:", err) // to the console, which the host keeps
	}
	unix.Sync()
	// PID 1 must not end: the kernel would panic.
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guestinit: power off:", err)
		select {}
	}
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	if err := enableControllers("/sys/fs/cgroup"); err != nil {
		return err
	}
	return runTest("/test")
}

func mountAll() error {
	mounts := []struct{ fstype, dir, options string }{
		{"devtmpfs", "/dev", ""},
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"cgroup2", "/sys/fs/cgroup", "nsdelegate,memory_recursiveprot"}, // as systemd does
		{"tmpfs", "/tmp", ""},
		{"tmpfs", "/run", ""},
	}
	for _, m := range mounts {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fstype, m.dir, m.fstype, 0, m.options); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s on %s: %w", m.fstype, m.dir, err)
		}
	}
	return nil
}

func enableControllers(root string) error {
	data, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(data)) {
		f, err := os.OpenFile(filepath.Join(root, "cgroup.subtree_control"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("+" + controller)
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("enable controller %s: %w", controller, err)
		}
	}
	return nil
}

// output is the second serial port: every kernel has the driver built in, which is not so for ports of virtio (a module in 6.1 of Debian).
const output = "/dev/ttyS1"

// openOutput opens it to pass on bytes as they are.
func openOutput() (*os.File, error) {
	f, err := os.OpenFile(output, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	mode, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == nil {
		mode.Oflag &^= unix.OPOST
		err = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, mode)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set mode of %s: %w", output, err), f.Close())
	}
	return f, nil
}

// runTest runs dir/test in dir. A failed test is not an error of runTest: its output
// contains the failure.
func runTest(dir string) (err error) {
	out, err := openOutput()
	if err != nil {
		return err
	}
	defer func() {
		const drain = 1 // not send a break: tcdrain(3)
		err = errors.Join(err, unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, drain), out.Close())
	}()
	data, err := os.ReadFile(filepath.Join(dir, "args.json"))
	if err != nil {
		return err
	}
	var args []string
	if err := json.Unmarshal(data, &args); err != nil {
		return fmt.Errorf("parse arguments: %w", err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/test", "HOME=/tmp", "TMPDIR=/tmp"}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}
