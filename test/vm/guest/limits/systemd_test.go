//go:build guest

package limits_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

const (
	unit        = "limits.service"
	unitCgroup  = cgroup.Path("system.slice/" + unit)
	destination = "org.freedesktop.systemd1"
)

// TestSystemd measures calls of systemd: one without effect, one that sets a unit's CPUs, and one that reads them. It also measures the
// time until systemd has written the value. The daemon sets all properties of a unit by one call, and reads all of them by five.
func TestSystemd(t *testing.T) {
	m := newMeter(t)
	if out, err := exec.CommandContext(t.Context(), "systemd-run", "--unit="+unit, "sleep", "infinity").CombinedOutput(); err != nil {
		t.Fatalf("start %s: %v: %s", unit, err, out)
	}
	ours := systemd.New(cpuset.Range(0, 7))
	t.Cleanup(ours.Close)
	version, err := ours.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.kernel = fmt.Sprintf("systemd%d", version)
	conn := dial(t)
	manager, object := conn.Object(destination, "/org/freedesktop/systemd1"), conn.Object(destination, "/org/freedesktop/systemd1/unit/limits_2eservice")

	set := func(i int) error {
		return manager.CallWithContext(t.Context(), destination+".Manager.SetUnitProperties", 0, unit, true, []property{{cgroup.UnitCPUs, mask(i)}}).Err
	}
	m.compare("nothing", 10, func(int) error {
		return manager.CallWithContext(t.Context(), "org.freedesktop.DBus.Peer.Ping", 0).Err
	}, nil)
	m.compare("set", 2, set, func(i int) error {
		return ours.SetProperties(t.Context(), unit, []systemd.Property{{Name: cgroup.UnitCPUs, Value: side(i)}})
	})
	m.compare("read", 2, func(int) error {
		_, err := object.GetProperty(destination + ".Service." + cgroup.UnitCPUs)
		return err
	}, func(int) error {
		_, err := ours.Properties(t.Context(), unit)
		return err
	})
	from := m.open(unitCgroup, fileEffective, unix.O_RDONLY)
	m.compare("written", 2, func(i int) error {
		if err := set(i); err != nil {
			return err
		}
		return from.becomes(t.Context(), side(i))
	}, nil)
}

// becomes asks the kernel until the file is as wanted.
func (f file) becomes(ctx context.Context, want string) error {
	var data [256]byte
	for ctx.Err() == nil {
		n, err := unix.Pread(int(f), data[:], 0)
		if err != nil {
			return err
		}
		if string(bytes.TrimSpace(data[:n])) == want {
			return nil
		}
	}
	return fmt.Errorf("wait for %s: %w", want, context.Cause(ctx))
}

// property is one in a call of SetUnitProperties.
type property struct {
	Name  string
	Value godbus.Variant
}

// mask is the i-th side as systemd takes it: bytes of a mask, the lowest CPUs first.
func mask(i int) godbus.Variant { return godbus.MakeVariant([]byte{0b1100 << (2 * (i % 2))}) }

// dial connects to systemd's own socket. The client buffers data that arrives with the end of the authentication until more data arrives,
// so dial repeats its query until systemd answers.
func dial(t *testing.T) *godbus.Conn {
	t.Helper()
	conn, err := godbus.Dial("unix:path=/run/systemd/private", godbus.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(unix.Getuid()))}); err != nil {
		t.Fatal(err)
	}
	const nudges = 600
	answers := make(chan *godbus.Call, nudges)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range nudges {
		conn.Object(destination, "/org/freedesktop/systemd1").Go("org.freedesktop.DBus.Peer.Ping", 0, answers)
		select {
		case answer := <-answers:
			if answer.Err != nil {
				t.Fatal(answer.Err)
			}
			return conn
		case <-tick.C:
		}
	}
	t.Fatal("systemd does not answer")
	return nil
}
