package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// privateSocket is where systemd listens itself, for root and without a bus
// daemon.
const privateSocket = "/run/systemd/private"

func (s *Systemd) connect(ctx context.Context) (*dbus.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.Connected() {
		return s.conn, nil
	}
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		conn, _, err := dial(ctx)
		return conn, err
	})
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// dial connects to systemd's own socket, else to the system bus, and reports whether
// it is the bus. Ctx bounds the connecting and not the connection.
func dial(ctx context.Context) (conn *godbus.Conn, bus bool, err error) {
	conn, privateErr := dialBus(ctx, false, func(o ...godbus.ConnOption) (*godbus.Conn, error) {
		return godbus.Dial("unix:path="+privateSocket, o...)
	})
	if privateErr == nil {
		return conn, false, nil
	}
	conn, busErr := dialBus(ctx, true, godbus.SystemBusPrivate)
	if busErr != nil {
		return nil, false, fmt.Errorf("connect to systemd: %w (a container needs %s or the system bus socket mounted)",
			errors.Join(privateErr, busErr), privateSocket)
	}
	return conn, true, nil
}

func dialBus(ctx context.Context, hello bool, open func(...godbus.ConnOption) (*godbus.Conn, error)) (*godbus.Conn, error) {
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, cancel)
	conn, err := open(godbus.WithContext(lifetime))
	if err != nil {
		cancel()
		return nil, err
	}
	err = conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Getuid()))})
	if err == nil && hello {
		err = conn.Hello()
	}
	if err == nil && !hello {
		err = pingUntilReady(ctx, conn)
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
