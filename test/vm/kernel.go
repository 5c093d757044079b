package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// RunKernelTests is RunTests for tests that need only a kernel. It boots one in a few seconds, with the tests as the only
// process, as root. /proc, /sys, /dev, /tmp and /run are mounted, and cgroup2 with all its controllers at /sys/fs/cgroup.
// Config.Node does not apply; Config.Suite and Config.Kernel choose the kernel.
func RunKernelTests(t *testing.T, pkg string, config Config, args ...string) bool {
	t.Helper()
	store, err := openStore()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := newRunDir(store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		var err error
		if t.Failed() {
			t.Logf("logs of the kernel: %s", dir.kept)
			err = dir.keep(consoleLog, outputs+".txt")
		}
		if err := errors.Join(err, dir.remove()); err != nil {
			t.Error(err)
		}
	}()
	output, err := runKernelTests(t.Context(), store, dir, pkg, config, testLimit(t), args)
	if err != nil {
		t.Fatalf("run tests of %s on a bare kernel: %v", pkg, err)
	}
	if !replayOutput(t, pkg, output) {
		t.Errorf("tests of %s failed on a bare kernel; its logs: %s", pkg, dir.kept)
		return false
	}
	return true
}

// runKernelTests returns the path of the file with the output of the test binary.
func runKernelTests(ctx context.Context, store image.Store, dir runDir, pkg string, config Config, limit time.Duration, args []string) (string, error) {
	config, topology, err := config.resolved()
	if err != nil {
		return "", err
	}
	if config.Node {
		return "", errors.New("a bare kernel cannot be a node: use Start and RunTests")
	}
	kernel, err := store.Kernel(ctx, config.Suite, config.Kernel)
	if err != nil {
		return "", err
	}
	init := dir.file("init")
	if _, err := goCommand(ctx, "build", "-ldflags=-s -w", "-o", init, "github.com/cpupoold/cpupoold/test/vm/guestinit"); err != nil {
		return "", err
	}
	binary, err := compileTest(ctx, pkg, dir.path)
	if err != nil {
		return "", err
	}
	initramfs, output := dir.file("initramfs"), dir.file(outputs+".txt")
	if err := writeInitramfs(initramfs, init, binary, testFlags(limit, args)); err != nil {
		return "", fmt.Errorf("write initramfs: %w", err)
	}
	qemuArgs := append(machineArgs(oneThread, dir.file(consoleLog)), topology.args(config.Memory)...)
	qemuArgs = append(qemuArgs,
		"-kernel", kernel.Image, "-initrd", initramfs,
		"-append", kernelCommandLine(append([]string{"quiet"}, config.KernelArgs...)...),
		"-serial", "file:"+output, // the second one
	)
	q, err := startQEMU(ctx, qemuArgs)
	if err != nil {
		return "", err
	}
	defer q.stop()
	select {
	case <-q.exited:
		if _, err := os.Stat(output); err != nil {
			return "", fmt.Errorf("%w: %w", q.err, err)
		}
		return output, nil
	case <-time.After(limit + giveUp):
		return "", fmt.Errorf("guest does not end after %v; output so far: %s", limit, tail(output))
	case <-ctx.Done():
		return "", fmt.Errorf("%w; output so far: %s", context.Cause(ctx), tail(output))
	}
}
