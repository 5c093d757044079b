// Command guestinit is PID 1 of a guest that has nothing but a kernel and one test binary: it mounts what the kernel offers, hands
// every controller to the children of the root cgroup, runs the test binary and powers the machine off.
//
// It finds in the initramfs /test/test, the binary, and /test/args.json, its arguments. What the binary prints goes to the virtio serial port "output", apart from the kernel's messages on the console.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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
	return runTest("/test", "output")
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

// openPort opens the virtio serial port of that name. It waits for it: the kernel asks the device for its ports after it has started us.
func openPort(name string) (*os.File, error) {
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	limit := time.After(time.Minute)
	for {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range names {
			if data, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(data)) == name {
				return os.OpenFile(filepath.Join("/dev", filepath.Base(filepath.Dir(file))), os.O_WRONLY, 0)
			}
		}
		select {
		case <-retry.C:
		case <-limit:
			return nil, fmt.Errorf("wait for virtio serial port %q: there are %q", name, names)
		}
	}
}

// runTest runs dir/test in dir; that it fails is not an error of ours: its output says so.
func runTest(dir, port string) error {
	output, err := openPort(port)
	if err != nil {
		return err
	}
	defer output.Close()
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
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil
	}
	return err
}
