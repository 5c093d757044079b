package schedwatch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lockdown names the kernel's lockdown mode in brackets.
const lockdown = "/sys/kernel/security/lockdown"

// unavailable adds ErrUnavailable and the remedy to the kernel's error.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w; %s", ErrUnavailable, err, remedy(err))
}

// remedy states how to get rid of the kernel's error.
func remedy(err error) string {
	switch {
	case isRefused(err):
		return "the kernel's verifier refuses the program; report this as a bug with the version of the kernel"
	case errors.Is(err, unix.ENOSYS):
		return "the kernel needs CONFIG_BPF_SYSCALL"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if mode, err := os.ReadFile(lockdown); err == nil && bytes.Contains(mode, []byte("[confidentiality]")) {
			return "the kernel's lockdown mode is confidentiality; boot with lockdown=integrity"
		}
		return "run as root, or with CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH, and allow bpf(2) and open_by_handle_at(2) in the seccomp profile"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		return "the kernel has no memory for the tables"
	case errors.Is(err, fs.ErrNotExist):
		return "the kernel needs CONFIG_DEBUG_INFO_BTF, or mount tracefs on /sys/kernel/tracing"
	}
	return "it needs Linux 5.12 with CONFIG_BPF_EVENTS and CONFIG_PERF_EVENTS"
}

// isRefused reports whether the verifier has refused the program.
func isRefused(err error) bool {
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && len(refused.Log) > 0
}
