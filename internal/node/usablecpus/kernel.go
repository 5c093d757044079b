package usablecpus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// cpuDevices is the directory of the CPUs' devices in sysfs.
const cpuDevices = "/devices/system/cpu/cpu"

// kernelGroup is the multicast group of the kernel's uevents. udevd sends to another group.
const kernelGroup = 1

// messageLimit is the size of the receive buffer in bytes. The kernel sends less: at most
// 2 KiB of variables (UEVENT_BUFFER_SIZE) after action and path.
const messageLimit = 8 << 10

// Source reports CPUs that are plugged, unplugged, or switched on or off.
type Source interface {
	// Watch calls changed when it begins to listen, and then after each event of a CPU. It
	// ends with ctx, with the error of changed, or with the reason why it cannot listen.
	Watch(ctx context.Context, changed func() error) error
	// Read reads the present topology. It returns before if nothing has changed.
	Read(before *topology.Topology) (*topology.Topology, error)
}

// Kernel is the Source of this machine. Sys holds the files below /sys.
type Kernel struct{ Sys fs.FS }

// Read implements Source. It compares the lists first: a topology takes thousands of files.
func (k Kernel) Read(before *topology.Topology) (*topology.Topology, error) {
	if same, err := before.Current(k.Sys); same || err != nil {
		return before, err
	}
	return topology.Read(k.Sys)
}

// Watch implements Source. The kernel sends a uevent for each CPU, as a netlink message (netlink(7),
// NETLINK_KOBJECT_UEVENT). No file of sysfs reports the change to a watcher. The kernel has updated the
// cpusets before. Messages can be lost, so Watch also calls changed after a loss. It works in any network
// namespace that belongs to the host's user namespace.
func (Kernel) Watch(ctx context.Context, changed func() error) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("listen for uevents: %w", os.NewSyscallError("socket", err))
	}
	// A file waits in Go's poller, without a blocked thread.
	socket := os.NewFile(uintptr(fd), "uevents")
	defer socket.Close() //nolint:errcheck // nothing was written
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return fmt.Errorf("listen for uevents: %w", os.NewSyscallError("bind", err))
	}
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Now()) })
	defer stop()
	conn, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("listen for uevents: %w", err)
	}
	buffer := make([]byte, messageLimit)
	for notify := true; ; {
		if notify {
			if err := changed(); err != nil {
				return err
			}
		}
		n, from, err := receive(conn, buffer)
		lost := errors.Is(err, unix.ENOBUFS)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !lost:
			return fmt.Errorf("listen for uevents: %w", err)
		}
		sender, ok := from.(*unix.SockaddrNetlink)
		notify = lost || IsAboutCPU(buffer[:n]) && ok && sender.Pid == 0 // only the kernel has port 0
	}
}

func receive(conn interface {
	Read(func(uintptr) bool) error
}, buffer []byte) (n int, from unix.Sockaddr, err error) {
	waitErr := conn.Read(func(fd uintptr) bool {
		for {
			if n, from, err = unix.Recvfrom(int(fd), buffer, 0); !errors.Is(err, unix.EINTR) {
				return !errors.Is(err, unix.EAGAIN)
			}
		}
	})
	if waitErr != nil {
		return 0, nil, waitErr
	}
	return max(n, 0), from, os.NewSyscallError("recvfrom", err)
}

// IsAboutCPU reports whether a uevent is about a CPU: "offline@/devices/system/cpu/cpu3", then
// variables like SUBSYSTEM=cpu. A zero byte ends each of them. Other formats, such as udevd's,
// are not.
func IsAboutCPU(message []byte) bool {
	lines := strings.Split(string(message), "\x00")
	action, device, _ := strings.Cut(lines[0], "@")
	number, isCPU := strings.CutPrefix(device, cpuDevices)
	_, err := strconv.ParseUint(number, 10, 31)
	return isCPU && err == nil && slices.Contains(lines, "SUBSYSTEM=cpu") && slices.Contains(lines, "ACTION="+action)
}
