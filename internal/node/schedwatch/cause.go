package schedwatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

// unavailable adds ErrUnavailable and the remedy to the kernel's error.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w: %s", ErrUnavailable, err, remedy(err))
}

// plain returns an error of the eBPF library without its advice if the kernel denies the call. The advice is
// about RLIMIT_MEMLOCK, which has no effect since Linux 5.11.
func plain(err error) error {
	for _, denied := range []unix.Errno{unix.EPERM, unix.EACCES} {
		if errors.Is(err, denied) && !isRefused(err) {
			return fmt.Errorf("the kernel denies bpf or perf_event_open: %w", denied)
		}
	}
	return err
}

// remedy states how to get rid of the kernel's error.
func remedy(err error) string {
	switch {
	case isRefused(err):
		return "the kernel's verifier refuses the program; report this as a bug with the version of the kernel"
	case errors.Is(err, unix.ENOSYS):
		return "the kernel needs CONFIG_BPF_SYSCALL"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return account.Host{
			Status: text("/proc/thread-self/status"), UIDMap: text("/proc/self/uid_map"),
			Unprivileged: text("/proc/sys/kernel/unprivileged_bpf_disabled"), Lockdown: text("/sys/kernel/security/lockdown"),
		}.Denial()
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return "the kernel has no memory for the tables"
	case errors.Is(err, fs.ErrNotExist):
		return "the kernel needs CONFIG_DEBUG_INFO_BTF, or mount tracefs on /sys/kernel/tracing"
	}
	return "it needs Linux 5.12 with CONFIG_BPF_EVENTS and CONFIG_PERF_EVENTS"
}

// text returns the content of a short file, or nothing.
func text(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, longestProc)) // an unknown value is empty
	return string(b)
}

// isRefused reports whether the verifier has refused the program.
func isRefused(err error) bool {
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && len(refused.Log) > 0
}
