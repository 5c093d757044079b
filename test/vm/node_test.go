//go:build vm

package vm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/tsc"
)

func run(t *testing.T, m *vm.VM, cmd ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := m.Run(ctx, cmd...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestNode starts two machines from one snapshot: they are complete nodes, in the present, and do not see each other's writes.
func TestNode(t *testing.T) {
	leave(t)
	a := vm.Start(t, vm.Config{Node: true})
	b := vm.Start(t, vm.Config{Node: true})
	run(t, a, "touch", "/etc/mark")
	if _, err := b.Run(t.Context(), "test", "!", "-e", "/etc/mark"); err != nil {
		t.Errorf("a file of one machine is there in the other: %v", err)
	}
	for _, m := range []*vm.VM{a, b} {
		for _, unit := range []string{"containerd", "kubelet"} {
			if got := run(t, m, "systemctl", "show", "-P", "ActiveState", unit); got != "active" {
				t.Errorf("state of %s = %q; want active", unit, got)
			}
		}
		before := time.Now().Add(-10 * time.Second) // setting it takes some time itself
		got, err := time.Parse(time.RFC3339Nano, run(t, m, "date", "-u", "+%Y-%m-%dT%H:%M:%S.%NZ"))
		if after := time.Now(); err != nil || got.Before(before) || got.After(after) {
			t.Errorf("time in the guest = %v, %v; want between %v and %v", got, err, before, after)
		}
		if mhz := tsc.MHz(); mhz > 0 {
			want := fmt.Sprintf("Detected %d.000 MHz", mhz)
			if got := run(t, m, "sh", "-c", "dmesg | grep 'tsc: '"); !strings.Contains(got, want) {
				t.Errorf("the guest's kernel reports its clock as\n%s\nwant %q", got, want)
			}
		}
	}
	vm.RunTests(t, a, "./guest/boot", shapes["8c2n"]...)
}

// TestPanic checks that a test that crashes its machine gets an error, and does not
// time out.
func TestPanic(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Node: true})
	_, err := m.Run(t.Context(), "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 1000")
	if err == nil || !strings.Contains(err.Error(), "QEMU has ended") {
		t.Errorf("Run of a kernel panic = %v; want that QEMU has ended", err)
	}
	console, err := os.ReadFile(m.Console())
	if err != nil || !bytes.Contains(console, []byte("sysrq triggered crash")) {
		t.Errorf("console log, %v, lacks the panic:\n%s", err, console)
	}
}

func TestFiles(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Node: true})
	dir := t.TempDir()
	script := []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 0\n")
	script = append(script, bytes.Repeat([]byte("cpupoold"), 1<<17)...)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "script"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/script", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := m.CopyTo(t.Context(), dir, "/srv/new/dir"); err != nil {
		t.Fatal(err)
	}
	args := []string{"two words", "it's", "$HOME", "", "new\nline", `back\slash`}
	want := "<" + strings.Join(args, "><") + ">"
	if got := run(t, m, append([]string{"/srv/new/dir/link"}, args...)...); got != want {
		t.Errorf("output of the copied script = %q; want %q", got, want)
	}
	if err := m.CopyTo(t.Context(), filepath.Join(dir, "sub", "script"), "/srv/file"); err != nil {
		t.Fatal(err)
	}
	if got, want := run(t, m, "stat", "-c", "%s %a", "/srv/file"), fmt.Sprint(len(script), " 755"); got != want {
		t.Errorf("size and mode of the copied file = %q; want %q", got, want)
	}
	if out, err := m.Run(t.Context(), "sh", "-c", "echo no such thing >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "status 3") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("Run of a failing command = %q, %v; want its status and its words", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := m.Run(ctx, "sleep", "1000"); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("Run beyond its time = %v; want that the deadline has passed", err)
	}
}
