package vm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rebootTimeout is the time for a node to boot and become ready, emulated, with other work on the host.
const rebootTimeout = 10 * time.Minute

// Reboot resets the guest, as a power cut does, and returns when the guest is ready again. Files that are not on disk yet are lost, and so are
// listeners and connections of the earlier boot. A kernel that panics while it boots boots once more: on many threads, QEMU executes
// a rewritten instruction of the kernel too early in one of some hundred boots.
func (m *VM) Reboot(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rebootTimeout, fmt.Errorf("not ready after %v", rebootTimeout))
	defer cancel()
	if err := m.onReboot(ctx, "reset"); err != nil {
		return err
	}
	select {
	case <-m.qemu.resets: // of a boot that panicked
	default:
	}
	earlier := m.client.Load()
	if _, err := m.qemu.monitor.Execute(ctx, "system_reset", nil); err != nil {
		return err
	}
	select {
	case <-m.qemu.resets:
	case <-ctx.Done():
		return fmt.Errorf("reset the guest: %w", context.Cause(ctx))
	}
	earlier.Close() // the guest no longer knows the connection
	if err := m.connect(ctx); err != nil {
		return err
	}
	if err := m.setClock(ctx); err != nil {
		return err
	}
	return errors.Join(m.ready(ctx, m.node), m.onReboot(ctx, "shutdown"))
}

// onReboot sets what QEMU does when the guest boots again: reset, or shutdown, which ends QEMU.
func (m *VM) onReboot(ctx context.Context, action string) error {
	_, err := m.qemu.monitor.Execute(ctx, "set-action", map[string]string{"reboot": action})
	return err
}
