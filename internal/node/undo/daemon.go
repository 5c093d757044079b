package undo

import (
	"fmt"
	"os"
	"strings"
)

const (
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

func ReadBootID() (string, error) {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
