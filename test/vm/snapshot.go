package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// resume continues from the snapshot of a machine like g that has just become ready, and makes the snapshot first if it does not
// exist. It is QEMU's migration to a file, not savevm: the file is only read, so any number of machines may run from it at the same
// time.
func (m *VM) resume(ctx context.Context, store image.Store, g guest) error {
	version, err := exec.CommandContext(ctx, emulator, "--version").Output()
	if err != nil {
		return fmt.Errorf("ask for version of %s: %w", emulator, err)
	}
	inputs := fmt.Sprint(string(version), g.disk.Key, strings.Join(append(g.args(oneThread, "disk", "console"), string(manyThreads)), "\n"))
	dir, err := store.Build(ctx, snapshotName(g.disk.Name, g.config), inputs, func(dir string) error { return makeSnapshot(ctx, dir, g) })
	if err != nil {
		return err
	}
	if err := overlay(ctx, m.overlay(), filepath.Join(dir, overlayDisk), "qcow2"); err != nil {
		return err
	}
	if err := m.start(ctx, append(g.args(manyThreads, m.overlay(), m.Console()), "-incoming", "defer")); err != nil {
		return err
	}
	if err := m.qemu.migrate(ctx, "migrate-incoming", filepath.Join(dir, "state")); err != nil {
		return err
	}
	if _, err := m.qemu.monitor.Execute(ctx, "cont", nil); err != nil {
		return err
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	return m.setClock(ctx)
}

// snapshotName returns the name of the snapshots of machines with this disk.
func snapshotName(disk string, c Config) string { return "snapshot-" + disk + "-" + c.Topology }

// makeSnapshot boots g and leaves its disk and its state in dir.
func makeSnapshot(ctx context.Context, dir string, g guest) error {
	m := &VM{dir: runDir{path: dir}, disk: g.disk}
	defer func() {
		if m.qemu != nil {
			m.qemu.stop()
		}
	}()
	if err := m.powerOn(ctx, g); err != nil {
		return fmt.Errorf("boot for a snapshot: %w (console log: %s)", err, m.Console())
	}
	if _, err := m.Run(ctx, "sync"); err != nil {
		return err
	}
	// Connections do not survive: the guest must have no connection of ours.
	if err := m.client.Load().Close(); err != nil {
		return err
	}
	if _, err := m.qemu.monitor.Execute(ctx, "stop", nil); err != nil {
		return err
	}
	return m.qemu.migrate(ctx, "migrate", filepath.Join(dir, "state"))
}

// migrate writes the machine's state to a file, or reads it, and returns when that is done.
func (q *qemu) migrate(ctx context.Context, command, file string) error {
	// mapped-ram gives each page a fixed place in the file, so that it can be read quickly.
	if err := q.setCapabilities(ctx, "events", "mapped-ram"); err != nil {
		return err
	}
	if _, err := q.monitor.Execute(ctx, command, map[string]string{"uri": "file:" + file}); err != nil {
		return err
	}
	for {
		select {
		case e := <-q.events:
			var data struct{ Status string }
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return fmt.Errorf("parse migration event: %w", err)
			}
			switch data.Status {
			case "completed":
				return nil
			case "failed":
				why, err := q.monitor.Execute(ctx, "query-migrate", nil)
				return fmt.Errorf("%s %s: %w", command, file, errors.Join(fmt.Errorf("failed: %s", why), err))
			}
		case <-q.exited:
			return fmt.Errorf("%s %s: QEMU ended: %w", command, file, q.err)
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", command, file, context.Cause(ctx))
		}
	}
}

func (q *qemu) setCapabilities(ctx context.Context, names ...string) error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	var all []capability
	for _, name := range names {
		all = append(all, capability{name, true})
	}
	_, err := q.monitor.Execute(ctx, "migrate-set-capabilities", map[string]any{"capabilities": all})
	return err
}
