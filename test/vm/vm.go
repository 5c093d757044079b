// Package vm boots virtual machines for tests and runs commands, and whole Go test binaries, in them.
//
// See README.md for how the guest is made.
package vm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// bootLimit is the timeout until a guest is ready. Half a minute is usual on an idle machine with two cores.
const bootLimit = 15 * time.Minute

// Names of files in a machine's directory.
const (
	consoleLog  = "console.log"
	overlayDisk = "disk.qcow2"
)

// VM is a running guest. Its methods may be called from several goroutines.
type VM struct {
	dir    runDir // console log, disk; gone after Close
	disk   image.Disk
	port   string
	qemu   *qemu
	client atomic.Pointer[ssh.Client] // nil before the first connection; Reboot replaces it
	node   bool
}

// Boot starts a guest and returns when it is ready: all units are active, and on a node the kubelet is healthy. The caller closes it.
// Tests use Start.
func Boot(ctx context.Context, config Config) (*VM, error) {
	config, topology, err := config.resolved()
	if err != nil {
		return nil, err
	}
	if config.Kernel != "" {
		return nil, fmt.Errorf("boot kernel %q: only RunKernelTests boots it", config.Kernel)
	}
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	disk, err := findDisk(ctx, store, config)
	if err != nil {
		return nil, err
	}
	dir, err := newRunDir(store)
	if err != nil {
		return nil, err
	}
	m := &VM{dir: dir, disk: disk, node: config.Node}
	ctx, cancel := context.WithTimeoutCause(ctx, bootLimit, fmt.Errorf("not ready after %v", bootLimit))
	defer cancel()
	guest := guest{config: config, topology: topology, disk: disk}
	if config.Node && !config.Cold {
		err = m.resume(ctx, store, guest)
	} else {
		err = m.powerOn(ctx, guest)
	}
	if err != nil {
		return nil, fmt.Errorf("boot %s: %w", config.Topology, m.abandon(err))
	}
	return m, nil
}

// guest holds the inputs of a machine.
type guest struct {
	config   Config
	topology topology
	disk     image.Disk
}

// args returns QEMU's arguments without the monitor and an incoming snapshot.
func (g guest) args(on emulation, overlay, console string) []string {
	args := append(machineArgs(on, console), g.topology.args(g.config.Memory)...)
	return append(args,
		"-kernel", g.disk.Image, "-initrd", g.disk.Initrd,
		"-append", kernelCommandLine(append([]string{"root=/dev/vda", "rw"}, g.config.KernelArgs...)...),
		"-drive", "if=none,id=disk,format=qcow2,cache=unsafe,discard=unmap,file="+overlay,
		"-device", "virtio-blk-pci,drive=disk",
		"-netdev", "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
		"-device", "virtio-net-pci,netdev=net,romfile=",
	)
}

func (m *VM) powerOn(ctx context.Context, g guest) error {
	if err := overlay(ctx, m.overlay(), g.disk.Path, "raw"); err != nil {
		return err
	}
	if err := m.start(ctx, g.args(oneThread, m.overlay(), m.Console())); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	return m.ready(ctx, g.config.Node)
}

func (m *VM) start(ctx context.Context, args []string) (err error) {
	m.qemu, err = startQEMU(ctx, args)
	return err
}

func (m *VM) connect(ctx context.Context) (err error) {
	if m.port, err = m.qemu.sshPort(ctx); err != nil {
		return err
	}
	client, err := connect(ctx, m.disk, m.port, m.qemu.exited)
	if err == nil {
		m.client.Store(client)
	}
	return err
}

// Console returns the path of the file with the messages of the guest's kernel and systemd on the serial
// console.
func (m *VM) Console() string { return m.dir.file(consoleLog) }

func (m *VM) overlay() string { return m.dir.file(overlayDisk) }

// SSHCommand returns a command line for a shell in the guest, for people.
func (m *VM) SSHCommand() []string {
	return []string{
		"ssh", "-i", m.disk.SSHKey, "-p", m.port, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "root@127.0.0.1",
	}
}

// Close ends the guest at once, as pulling the plug does, and removes its disk and its console log.
func (m *VM) Close() error {
	if client := m.client.Load(); client != nil {
		client.Close() // an error here means only that the guest has ended before
	}
	if m.qemu != nil {
		m.qemu.stop()
	}
	return m.dir.remove()
}

// abandon closes a machine that did not become ready, keeps its console log, and adds to err where.
func (m *VM) abandon(err error) error {
	if m.qemu != nil {
		err = fmt.Errorf("%w (console log: %s)", m.diagnose(err), m.dir.kept)
	}
	return errors.Join(err, m.dir.keep(consoleLog), m.Close())
}

// overlay makes a disk at path that starts as a copy of base, which is never written.
func overlay(ctx context.Context, path, base, format string) error {
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", format, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make disk over %s: %w: %s", base, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ready waits until systemd has started all there is, and on a node until the kubelet works.
func (m *VM) ready(ctx context.Context, node bool) error {
	state, err := m.Run(ctx, "systemctl", "is-system-running", "--wait")
	if err != nil {
		failed, ferr := m.Run(ctx, "systemctl", "--failed", "--no-legend", "--plain")
		return fmt.Errorf("wait for systemd: state %s, failed units %q: %w", strings.TrimSpace(string(state)), failed, errors.Join(err, ferr))
	}
	if !node {
		return nil
	}
	return m.kubeletHealthy(ctx)
}

// setClock gives the guest the host's time: one that continues from a snapshot lives in the past.
func (m *VM) setClock(ctx context.Context) error {
	now := strconv.FormatFloat(float64(time.Now().UnixMilli())/1e3, 'f', 3, 64)
	_, err := m.Run(ctx, "date", "--set", "@"+now)
	return err
}
