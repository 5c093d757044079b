// Package systemd reads, sets and watches units of systemd over D-Bus.
//
// [Client] carries out the writes of pkg/cgroup that systemd records. It returns the settings that
// systemd has for a unit, whatever the values of the files of its cgroup.
package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// minVersion is the first version with AllowedCPUs (NEWS, 244).
const minVersion = 244

// Client sets properties of units over D-Bus. A connection that is lost, as by
// daemon-reexec, is made again by the next call. It can be used by several
// goroutines; each call waits for systemd, which takes milliseconds at best.
type Client struct {
	possible cpuset.Set

	mu   sync.Mutex // guards conn
	conn *dbus.Conn
}

// New returns a client that connects when it is first used. Possible are
// the kernel's possible CPUs.
func New(possible cpuset.Set) *Client {
	return &Client{possible: possible}
}

// Close closes the connection.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Version returns systemd's version number. One below 244 is an error: it has
// no AllowedCPUs.
func (c *Client) Version(ctx context.Context) (int, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return 0, err
	}
	text, err := conn.GetManagerProperty("Version") // a quoted string, "257.13-1~deb13u1"
	if err != nil {
		return 0, fmt.Errorf("ask systemd for its version: %w", err)
	}
	var version int
	if _, err := fmt.Sscanf(strings.TrimLeft(text, `"v`), "%d", &version); err != nil {
		return 0, fmt.Errorf("parse version of systemd %.120q: %w", text, err)
	}
	if version < minVersion {
		return version, fmt.Errorf("systemd %d has no %s: version %d or later is needed", version, cgroup.UnitCPUs, minVersion)
	}
	return version, nil
}

// SetProperties sets properties of a unit until it ends or the machine reboots
// (runtime), all in one call. systemd applies them at once and with them every
// other setting of the unit, so that raw writes to its cgroup are lost. A unit
// that does not exist is ErrGone.
func (c *Client) SetProperties(ctx context.Context, unit string, properties []Property) error {
	wire, words := make([]dbus.Property, len(properties)), make([]string, len(properties))
	for i, p := range properties {
		value, err := p.encode(c.possible)
		if err != nil {
			return fmt.Errorf("set properties of %s: %w", unit, err)
		}
		wire[i], words[i] = dbus.Property{Name: p.Name, Value: value}, p.Name+"="+p.Value
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	if err := conn.SetUnitPropertiesContext(ctx, unit, true, wire...); err != nil {
		return fmt.Errorf("set %s of %s: %w", strings.Join(words, " "), unit, unitCause(err))
	}
	return nil
}

// Apply carries out a write that goes Via DBus; for others it is an error.
func (c *Client) Apply(ctx context.Context, w cgroup.Write) error {
	unit, ok := w.Path.Unit()
	if w.Via != cgroup.DBus || !ok {
		return fmt.Errorf("apply %s: not a write to a unit", w)
	}
	return c.SetProperties(ctx, unit, []Property{{w.Property, w.Value}})
}

// Properties returns systemd's settings for a unit, whatever the values of its cgroup's
// files. It returns ErrGone for a unit that does not exist.
func (c *Client) Properties(ctx context.Context, unit string) (cgroup.UnitState, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return cgroup.UnitState{}, err
	}
	state, err := readUnit(ctx, conn, unit)
	if err != nil {
		return cgroup.UnitState{}, fmt.Errorf("read properties of %s: %w", unit, unitCause(err))
	}
	return state, nil
}

func readUnit(ctx context.Context, conn *dbus.Conn, unit string) (cgroup.UnitState, error) {
	kind, err := unitInterface(unit)
	if err != nil {
		return cgroup.UnitState{}, err
	}
	// systemd answers for units that do not exist too, with defaults.
	load, err := conn.GetUnitPropertyContext(ctx, unit, "LoadState")
	if err != nil {
		return cgroup.UnitState{}, err
	}
	if load.Value.Value() == "not-found" {
		return cgroup.UnitState{}, cgroup.ErrGone
	}
	mask, maskErr := unitProperty[[]byte](ctx, conn, unit, kind, cgroup.UnitCPUs)
	nodes, nodesErr := unitProperty[[]byte](ctx, conn, unit, kind, cgroup.UnitMems)
	weight, weightErr := unitProperty[uint64](ctx, conn, unit, kind, cgroup.UnitWeight)
	quota, quotaErr := unitProperty[uint64](ctx, conn, unit, kind, cgroup.UnitQuota)
	if err := cmp.Or(maskErr, nodesErr, weightErr, quotaErr); err != nil {
		return cgroup.UnitState{}, err
	}
	state := cgroup.UnitState{Known: true, Weight: weight, Quota: int64(quota)} // unset becomes -1
	if weight == unset {
		state.Weight = 0
	}
	if state.CPUs, err = decodeCPUs(mask); err != nil {
		return cgroup.UnitState{}, fmt.Errorf("decode %s: %w", cgroup.UnitCPUs, err)
	}
	if state.Mems, err = decodeCPUs(nodes); err != nil {
		return cgroup.UnitState{}, fmt.Errorf("decode %s: %w", cgroup.UnitMems, err)
	}
	return state, nil
}

func unitProperty[T any](ctx context.Context, conn *dbus.Conn, unit, kind, name string) (T, error) {
	var zero T
	p, err := conn.GetUnitTypePropertyContext(ctx, unit, kind, name)
	if err != nil {
		return zero, err
	}
	value, ok := p.Value.Value().(T)
	if !ok {
		return zero, fmt.Errorf("property %s is a %s, want a %T", name, p.Value.Signature(), zero)
	}
	return value, nil
}

// unitCause recognises a unit that has ended.
func unitCause(err error) error {
	var e godbus.Error
	if errors.As(err, &e) && e.Name == "org.freedesktop.systemd1.NoSuchUnit" {
		return cgroup.ErrGone
	}
	return err
}

// privateSocket is where systemd listens itself, for root and without a bus
// daemon.
const privateSocket = "/run/systemd/private"

func (c *Client) connect(ctx context.Context) (*dbus.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		if c.conn.Connected() {
			return c.conn, nil
		}
		c.conn.Close()
	}
	var err error
	c.conn, err = dbus.NewConnection(func() (*godbus.Conn, error) {
		conn, _, err := dial(ctx)
		return conn, err
	})
	return c.conn, err
}

// dial connects to systemd's own socket, else to the system bus, and reports whether
// it is the bus. Ctx bounds the connecting and not the connection.
func dial(ctx context.Context) (conn *godbus.Conn, bus bool, err error) {
	ping := func(conn *godbus.Conn) error { return pingUntilReady(ctx, conn) }
	conn, privateErr := dialBus(ctx, ping, func(o ...godbus.ConnOption) (*godbus.Conn, error) {
		return godbus.Dial("unix:path="+privateSocket, o...)
	})
	if privateErr == nil {
		return conn, false, nil
	}
	conn, busErr := dialBus(ctx, (*godbus.Conn).Hello, godbus.SystemBusPrivate)
	if busErr != nil {
		return nil, false, fmt.Errorf("connect to systemd: %w (a container needs %s or the system bus socket mounted)",
			errors.Join(privateErr, busErr), privateSocket)
	}
	return conn, true, nil
}

func dialBus(ctx context.Context, begin func(*godbus.Conn) error, open func(...godbus.ConnOption) (*godbus.Conn, error)) (*godbus.Conn, error) {
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, cancel)
	conn, err := open(godbus.WithContext(lifetime))
	if err != nil {
		cancel()
		return nil, err
	}
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil {
		err = begin(conn)
	}
	if err == nil && !release() {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		conn.Close() //nolint:errcheck // it failed already
		return nil, err
	}
	return conn, nil
}

const (
	nudgeInterval = 100 * time.Millisecond
	maxNudges     = 100
)

// pingUntilReady pings systemd until it answers. A message that reaches sd-bus together
// with the end of the authentication stays in its buffer until more data arrives, so one
// ping is not enough. With systemd 257 on a busy machine, three of ten first calls
// were never answered.
func pingUntilReady(ctx context.Context, conn *godbus.Conn) error {
	answers := make(chan *godbus.Call, maxNudges)
	ticker := time.NewTicker(nudgeInterval)
	defer ticker.Stop()
	manager := conn.Object("org.freedesktop.systemd1", managerPath)
	for range maxNudges {
		manager.GoWithContext(ctx, "org.freedesktop.DBus.Peer.Ping", 0, answers)
		select {
		case answer := <-answers:
			return answer.Err
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("no answer on %s within %v", privateSocket, maxNudges*nudgeInterval)
}
