package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// slot is a place for a CPU, as query-hotpluggable-cpus reports it.
type slot struct {
	Props map[string]int `json:"props"`
	Path  string         `json:"qom-path"` // of the CPU; empty without one
}

// slots are the machine's, by the numbers that Linux gives to their CPUs when all are there.
func (m *VM) slots(ctx context.Context) ([]slot, error) {
	answer, err := m.qemu.monitor.Execute(ctx, "query-hotpluggable-cpus", nil)
	if err != nil {
		return nil, err
	}
	var all []slot
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, fmt.Errorf("read QEMU's list of CPUs: %w", err)
	}
	slices.SortFunc(all, func(a, b slot) int {
		for _, level := range []string{"socket-id", "die-id", "module-id", "core-id", "thread-id"} {
			if c := cmp.Compare(a.Props[level], b.Props[level]); c != 0 {
				return c
			}
		}
		return 0
	})
	return all, nil
}

// UnplugCPU asks the guest to release a CPU, and returns after the guest's kernel has taken it offline. It works only on nodes that continue
// from a snapshot: if one thread runs all CPUs (oneThread), QEMU 10.0 aborts. QEMU also aborts when the machine has had its maximum of CPUs
// and gets one again (tcg_register_thread). Linux accepts only CPUs that it has seen at boot.
func (m *VM) UnplugCPU(ctx context.Context, cpu int) error {
	all, err := m.slots(ctx)
	if err != nil {
		return err
	}
	if cpu == 0 || cpu >= len(all) || all[cpu].Path == "" {
		return fmt.Errorf("unplug CPU %d: the machine has %d places, and this one must have a CPU that is not the first", cpu, len(all))
	}
	if _, err := m.qemu.monitor.Execute(ctx, "device_del", map[string]string{"id": all[cpu].Path}); err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := m.slots(ctx)
		if err != nil || all[cpu].Path == "" {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("unplug CPU %d: the guest keeps it: %w", cpu, ctx.Err())
		}
	}
}
