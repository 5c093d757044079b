//go:build guest

package live_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestKill checks that the kernel removes the program with a killed process, and that nothing is pinned.
func TestKill(t *testing.T) {
	n := newNode(t)
	n.group("owner", cpuset.Of(exclusive))
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	programs, maps := n.objects()
	p := n.start(watcher, "home")
	if answer := p.do(exclusive, "owner"); answer != "watching" {
		t.Fatal(answer)
	}
	if now, nowMaps := n.objects(); now <= programs || nowMaps <= maps {
		t.Errorf("%d programs and %d maps after Open, %d and %d before; want more", now, nowMaps, programs, maps)
	}
	if pinned, err := os.ReadDir("/sys/fs/bpf"); err != nil || len(pinned) > 0 {
		t.Errorf("pinned objects: %v, %v; want none", pinned, err)
	}
	p.kill()
	n.until("the end of the program", func() error {
		if now, nowMaps := n.objects(); now != programs || nowMaps != maps {
			return fmt.Errorf("%d programs and %d maps; want %d and %d", now, nowMaps, programs, maps)
		}
		return nil
	})
}

// objects returns the numbers of eBPF programs and maps in the kernel.
func (n *node) objects() (programs, maps int) {
	n.Helper()
	for id := ebpf.ProgramID(0); ; programs++ {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			n.Fatal(err)
		}
		id = next
	}
	for id := ebpf.MapID(0); ; maps++ {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			n.Fatal(err)
		}
		id = next
	}
	return programs, maps
}
