package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	godbus "github.com/godbus/dbus/v5"
)

const (
	managerPath      = godbus.ObjectPath("/org/freedesktop/systemd1")
	managerInterface = "org.freedesktop.systemd1.Manager"
)

// WatchReload calls wake when systemd has finished a daemon-reload: it then
// applies the settings of all units again, and raw writes are lost. It also
// calls wake once it listens, because reloads before that were missed. It
// returns nil when ctx ends, and an error when the connection is lost, as by
// daemon-reexec: the caller starts it again.
func (s *Systemd) WatchReload(ctx context.Context, wake func()) error {
	return watch(ctx, func(conn *godbus.Conn, bus bool) error {
		err := subscribe(ctx, conn, bus)
		if err != nil {
			return fmt.Errorf("subscribe to systemd's reloads: %w", err)
		}
		wake()
		return nil
	}, func(signal *godbus.Signal) {
		if reloaded(signal) {
			wake()
		}
	})
}

// watch calls take with systemd's signals on a connection of its own, after subscribe. It returns
// nil when ctx ends, and an error when the connection is lost.
func watch(ctx context.Context, subscribe func(conn *godbus.Conn, bus bool) error, take func(*godbus.Signal)) error {
	conn, bus, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing to save
	signals := make(chan *godbus.Signal, 64)
	conn.Signal(signals)
	if err := subscribe(conn, bus); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case signal, ok := <-signals:
			if !ok {
				return errors.New("connection to systemd lost")
			}
			take(signal)
		}
	}
}

// subscribe requests signals. On its own socket systemd sends all of them, and
// does not answer calls that are meant for a bus.
func subscribe(ctx context.Context, conn *godbus.Conn, bus bool) error {
	ctx, cancel := context.WithTimeout(ctx, subscribeLimit)
	defer cancel()
	manager := conn.Object("org.freedesktop.systemd1", managerPath)
	if err := manager.CallWithContext(ctx, managerInterface+".Subscribe", 0).Err; err != nil || !bus {
		return err
	}
	return conn.AddMatchSignalContext(ctx, godbus.WithMatchInterface(managerInterface),
		godbus.WithMatchMember("Reloading"), godbus.WithMatchObjectPath(managerPath))
}

// subscribeLimit is D-Bus's usual limit for a call.
const subscribeLimit = 25 * time.Second

// reloaded recognises the end of a reload: Reloading(active=false).
func reloaded(signal *godbus.Signal) bool {
	if signal.Name != managerInterface+".Reloading" || len(signal.Body) != 1 {
		return false
	}
	active, ok := signal.Body[0].(bool)
	return ok && !active
}
