//go:build guest

package systemd_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/conformance"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

func newSystemd(t *testing.T) (*systemd.Client, *cgroup.FS) {
	t.Helper()
	fs, err := cgroup.Open("/sys/fs/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	s := systemd.New(cpuset.Range(0, 7))
	t.Cleanup(s.Close)
	return s, fs
}

func TestUnits(t *testing.T) {
	s, fs := newSystemd(t)
	conformance.RunUnits(t, s, manager{}, fs)
}

func TestVersion(t *testing.T) {
	s, _ := newSystemd(t)
	version, err := s.Version(t.Context())
	if err != nil || version < 252 {
		t.Errorf("Version = %d, %v; want what the guest has", version, err)
	}
	t.Logf("systemd %d", version)
}

// TestConnect connects many times: systemd must answer the first call on every
// connection.
func TestConnect(t *testing.T) {
	for range 30 {
		s := systemd.New(cpuset.Range(0, 7))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.Properties(ctx, "system.slice")
		cancel()
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReexec loses the connection: the watch ends with an error, and the next
// call connects again.
func TestReexec(t *testing.T) {
	s, fs := newSystemd(t)
	p := manager{}.Scope(t, "conformance-reexec.scope")
	unit, _ := p.Unit()
	if err := s.SetProperties(t.Context(), unit, []systemd.Property{{Name: cgroup.UnitCPUs, Value: "1-2"}}); err != nil {
		t.Fatal(err)
	}
	woken, ended := make(chan struct{}, 8), make(chan error, 1)
	go func() { ended <- s.WatchReload(t.Context(), func() { woken <- struct{}{} }) }()
	select {
	case <-woken:
	case err := <-ended:
		t.Fatal(err)
	}
	run(t, "systemctl", "daemon-reexec")
	select {
	case err := <-ended:
		if err == nil {
			t.Error("WatchReload = no error after a lost connection; want one")
		}
	case <-time.After(time.Minute):
		t.Error("WatchReload does not return after a lost connection")
	}
	state, err := s.Properties(t.Context(), unit)
	if err != nil || state.CPUs.String() != "1-2" {
		t.Errorf("Properties after daemon-reexec = %+v, %v; want CPUs 1-2", state, err)
	}
	if got, err := fs.Read(p); err != nil || got.CPUs.String() != "1-2" {
		t.Errorf("cpuset.cpus after daemon-reexec: %q, %v; want 1-2", got.CPUs, err)
	}
}

// TestWatchCrash checks that the crash of a service is reported, also by the name of an
// alias.
func TestWatchCrash(t *testing.T) {
	s, _ := newSystemd(t)
	const unit, alias = "conformance-crash.service", "conformance-alias.service"
	manager{}.Install(t, unit, "")
	if err := os.Symlink(unit, unitDir+alias); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(unitDir + alias) //nolint:errcheck // of a machine that ends with the tests
	manager{}.Reload(t)
	if u, err := s.Unit(t.Context(), alias); err != nil || u.Name != unit || u.Path != "system.slice/"+unit {
		t.Errorf("Unit(%s) = %+v, %v; want %s", alias, u, err, unit)
	}
	run(t, "systemctl", "start", unit)
	wakes, ended := make(chan string, 256), make(chan error, 1)
	go func() { ended <- s.WatchUnits(t.Context(), []string{alias}, func(unit string) { wakes <- unit }) }()
	if got := <-wakes; got != "" {
		t.Fatalf("first event = %q; want an empty name", got)
	}
	run(t, "systemctl", "kill", "--signal=KILL", unit)
	deadline := time.After(time.Minute)
	for {
		select {
		case got := <-wakes:
			if got != alias {
				t.Errorf("woken for %q, want %q", got, alias)
			}
			u, err := s.Unit(t.Context(), alias)
			if err != nil {
				t.Fatal(err)
			}
			if u.Active == "failed" {
				return
			}
		case err := <-ended:
			t.Fatal(err)
		case <-deadline:
			t.Fatal("no event at the end of the service")
		}
	}
}

// TestDelegated checks that cgroups below the cgroup of a service stay within its CPUs.
func TestDelegated(t *testing.T) {
	s, fs := newSystemd(t)
	const unit = "conformance-delegated.service"
	text := "[Service]\nDelegate=yes\nExecStart=sh -c 'cd /sys/fs/cgroup/system.slice/" + unit +
		" && mkdir main below && echo 0 >main/cgroup.procs && echo +cpuset >cgroup.subtree_control && echo 0-7 >below/cpuset.cpus && exec sleep infinity'\n"
	if err := os.WriteFile(unitDir+unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	manager{}.Reload(t)
	if err := s.SetProperties(t.Context(), unit, []systemd.Property{{Name: cgroup.UnitCPUs, Value: "2-3"}}); err != nil {
		t.Fatal(err)
	}
	run(t, "systemctl", "start", unit)
	defer run(t, "systemctl", "stop", unit)
	var below cgroup.State
	deadline := time.Now().Add(time.Minute)
	for below.CPUs.String() != "0-7" { // its shell takes a moment
		if time.Now().After(deadline) {
			t.Fatalf("the service has not created its cgroup: %+v", below)
		}
		below, _ = fs.Read("system.slice/" + unit + "/below") // not there yet
	}
	if below.Effective.String() != "2-3" {
		t.Errorf("effective CPUs below: %s, want 2-3", below.Effective)
	}
}

// manager is the guest's systemd, by its own tools.
type manager struct{}

func (manager) Scope(t testing.TB, name string) cgroup.Path {
	t.Helper()
	cmd := exec.Command("systemd-run", "--quiet", "--scope", "--unit="+name, "--property=Delegate=yes",
		"sh", "-c", "echo started; exec sleep infinity")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // systemd-run has become the process
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is in the scope
		t.Fatal(err)
	}
	return cgroup.Path("system.slice/" + name)
}

func (manager) Reload(t testing.TB) { run(t, "systemctl", "daemon-reload") }

const unitDir = "/run/systemd/system/"

func (m manager) Install(t testing.TB, unit, allowed string) {
	t.Helper()
	text := "[Service]\nExecStart=sleep infinity\n"
	if allowed != "" {
		text += "AllowedCPUs=" + allowed + "\n"
	}
	if err := os.WriteFile(unitDir+unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m.Reload(t)
	t.Cleanup(func() {
		if err := os.Remove(unitDir + unit); err != nil {
			t.Error(err)
		}
		m.Reload(t)
	})
}

func (manager) Start(t testing.TB, unit string) { run(t, "systemctl", "start", unit) }

func (manager) Stop(t testing.TB, unit string) { run(t, "systemctl", "stop", unit) }

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}
