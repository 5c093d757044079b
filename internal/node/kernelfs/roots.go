package kernelfs

import (
	"fmt"
	"os"
	"strings"
)

// Mount points of the kernel's file systems.
const (
	CgroupRoot = "/sys/fs/cgroup"
	ProcRoot   = "/proc"
	SysRoot    = "/sys"
)

// BootID returns the identifier of the kernel's boot.
func BootID() (string, error) {
	b, err := os.ReadFile(ProcRoot + "/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
