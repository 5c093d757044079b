//go:build guest

package disturbance_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// program writes a static program for x86-64 that consists of these instructions only, without the background threads of a
// language runtime.
func program(t *testing.T, name string, code ...byte) string {
	t.Helper()
	const base, headers = 0x400000, 64 + 56
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
			Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base,
			Filesz: headers + uint64(len(code)), Memsz: headers + uint64(len(code)), Align: 0x1000,
		},
		code,
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// kernel is a kernel with a node's cgroups.
type kernel struct {
	*testing.T

	fs         *cgroup.FS
	release    string
	partitions cgroup.PartitionKernel

	nearPID, ownerPID int
}

func newKernel(t *testing.T) *kernel {
	t.Helper()
	fs, err := cgroup.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	k := &kernel{T: t, fs: fs, release: unix.ByteSliceToString(uts.Release[:])}
	if k.partitions, err = cgroup.ParsePartitionKernel(k.release); err != nil {
		t.Fatal(err)
	}
	// The test, the services of the machine, and whatever is no task of a container, keep to the host's CPUs.
	k.mkdir(host)
	all, err := fs.Children("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		k.apply(p, cgroup.FileCPUs, onlyHosts)
	}
	k.move(os.Getpid(), host)

	spins := program(t, "spin", 0xeb, 0xfe)                                  // jmp to itself
	waits := program(t, "wait", 0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7) // pause(2), again and again
	for i := range sharers {
		what := waits
		if i == 0 {
			what = spins
		}
		k.mkdir(sharer(i))
		k.apply(sharer(i), cgroup.FileCPUs, wide().String())
		k.move(k.start(what), sharer(i))
	}
	k.mkdir(owner.Parent().Join("pause"))
	k.ownerPID = k.start(waits)

	k.mkdir(near)
	k.apply(near, cgroup.FileCPUs, nearSet().String())
	k.nearPID = k.start(spins)
	k.move(k.nearPID, near)
	if err := pin(k.nearPID, nearSet().Last()); err != nil {
		t.Fatal(err)
	}
	return k
}

// start starts a process, which lasts as long as the test.
func (k *kernel) start(program string) int {
	k.Helper()
	cmd := exec.Command(program)
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no other end
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// mkdir makes a cgroup, and those above it, which get the controllers.
func (k *kernel) mkdir(p cgroup.Path) {
	k.Helper()
	if parent := p.Parent(); parent != p {
		k.mkdir(parent)
		k.apply(parent, "cgroup.subtree_control", "+cpuset +cpu")
	} else {
		return // the root
	}
	if err := os.Mkdir(filepath.Join(mount, string(p)), 0o755); err != nil && !os.IsExist(err) {
		k.Fatal(err)
	}
}

func (k *kernel) apply(p cgroup.Path, file, value string) {
	k.Helper()
	if err := k.fs.Write(p, file, value); err != nil {
		k.Fatal(err)
	}
}

func (k *kernel) move(pid int, to cgroup.Path) {
	k.Helper()
	k.apply(to, "cgroup.procs", strconv.Itoa(pid))
}

func (k *kernel) state(p cgroup.Path) cgroup.State {
	k.Helper()
	st, err := k.fs.Read(p)
	if err != nil {
		k.Fatal(err)
	}
	return st
}

func (n *neighbour) number(text string) int {
	n.Helper()
	i, err := strconv.Atoi(text)
	if err != nil {
		n.Fatal(err)
	}
	return i
}

func (n *neighbour) read(name string) string {
	n.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		n.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
