package systemd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

const (
	unitsPath         = godbus.ObjectPath("/org/freedesktop/systemd1/unit")
	unitIface         = "org.freedesktop.systemd1.Unit"
	propertiesIface   = "org.freedesktop.DBus.Properties"
	propertiesChanged = propertiesIface + ".PropertiesChanged"
	managerPath       = godbus.ObjectPath("/org/freedesktop/systemd1")
	managerInterface  = "org.freedesktop.systemd1.Manager"
	jobRemoved        = managerInterface + ".JobRemoved"
)

// WatchUnits calls wake with the name of a unit among units when its state
// changes: it starts, stops, fails or is reloaded. It also calls wake with ""
// once it listens, because it has missed earlier changes. Calls may be too many
// and, when a connection is lost, too few. A call of [Client.Unit] never causes one.
// systemd loads a stopped or missing unit for each query and unloads it afterwards, with the
// signals UnitNew and UnitRemoved; WatchUnits ignores them. It returns nil when ctx ends, and
// an error when the connection is lost: the caller starts it again. WatchReload reports a
// reload of systemd itself, after which the set of units may differ.
func (c *Client) WatchUnits(ctx context.Context, units []string, wake func(unit string)) error {
	var names map[string]string
	return watch(ctx, func(conn *godbus.Conn, bus bool) (err error) {
		if names, err = c.objects(ctx, units); err != nil {
			return err
		}
		if err := subscribeUnits(ctx, conn, bus, names); err != nil {
			return fmt.Errorf("subscribe to systemd's units: %w", err)
		}
		wake("")
		return nil
	}, func(signal *godbus.Signal) {
		if unit := names[subject(signal)]; unit != "" {
			wake(unit)
		}
	})
}

// subscribeUnits asks a bus for the signals of the units alone, and for the ends of
// jobs: others come with each container. On its own socket systemd sends all of
// them.
func subscribeUnits(ctx context.Context, conn *godbus.Conn, bus bool, objects map[string]string) error {
	if err := subscribe(ctx, conn, bus); err != nil || !bus {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeLimit)
	defer cancel()
	errs := []error{conn.AddMatchSignalContext(ctx, godbus.WithMatchInterface(managerInterface),
		godbus.WithMatchMember("JobRemoved"), godbus.WithMatchObjectPath(managerPath))}
	for object := range objects {
		errs = append(errs, conn.AddMatchSignalContext(ctx, godbus.WithMatchInterface(propertiesIface),
			godbus.WithMatchMember("PropertiesChanged"), godbus.WithMatchObjectPath(unitsPath+godbus.ObjectPath("/"+object))))
	}
	return errors.Join(errs...)
}

// objects are the D-Bus objects of units: systemd's signals are about a unit's own
// name, also for one that the configuration knows by an alias.
func (c *Client) objects(ctx context.Context, units []string) (map[string]string, error) {
	names := make(map[string]string, len(units))
	for _, unit := range units {
		u, err := c.Unit(ctx, unit)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{unit, u.Name} {
			names[dbus.PathBusEscape(name)] = unit
		}
	}
	return names, nil
}

// subject is the last part of the path of the unit's object that a signal is about;
// "" for a signal about no unit, or without importance here.
func subject(signal *godbus.Signal) string {
	switch signal.Name {
	case jobRemoved: // number, object, unit, result
		if len(signal.Body) == 4 {
			if unit, ok := signal.Body[2].(string); ok {
				return dbus.PathBusEscape(unit)
			}
		}
	case propertiesChanged: // interface, changed, invalidated
		if len(signal.Body) == 3 && signal.Body[0] == unitIface {
			return path.Base(string(signal.Path))
		}
	}
	return ""
}

// WatchReload calls wake when systemd has finished a daemon-reload: it then
// applies the settings of all units again, and raw writes are lost. It also
// calls wake once it listens, because reloads before that were missed. It
// returns nil when ctx ends, and an error when the connection is lost, as by
// daemon-reexec: the caller starts it again.
func (c *Client) WatchReload(ctx context.Context, wake func()) error {
	return watch(ctx, func(conn *godbus.Conn, bus bool) error {
		if err := subscribe(ctx, conn, bus); err != nil {
			return fmt.Errorf("subscribe to systemd's reloads: %w", err)
		}
		wake()
		return nil
	}, func(signal *godbus.Signal) {
		if signal.Name == managerInterface+".Reloading" && len(signal.Body) == 1 && signal.Body[0] == false { // the end of a reload
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
