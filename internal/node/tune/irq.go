package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

type irqs struct{ proc, sys Dir }

// IRQs returns the source of the affinities of interrupts. proc is procfs, sys is sysfs.
func IRQs(proc, sys Dir) Source { return irqs{proc, sys} }

func (s irqs) Kinds() []Kind { return []Kind{IRQ} }

func (s irqs) Read(context.Context) ([]Observed, error) {
	names, err := s.proc.numbers("irq")
	if isGone(err) {
		return nil, nil // a kernel without SMP
	}
	var all []Observed
	errs := []error{err}
	near := make(map[string]string)
	boot := defaultInterruptCPUs(s.proc)
	for _, name := range names {
		value, err := s.proc.Read("irq/" + name + "/smp_affinity_list")
		if isGone(err) {
			continue
		}
		var set cpuset.Set
		if err == nil {
			set, err = cpuset.Parse(value)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("IRQ %s: %w", name, err))
			continue
		}
		o := Observed{Knob: Knob{IRQ, name}, Value: set.String(), Default: boot}
		s.describe(&o)
		if node, err := s.proc.Read("irq/" + name + "/node"); err == nil {
			if _, known := near[node]; !known {
				near[node], _ = s.sys.Read("devices/system/node/node" + strings.TrimSpace(node) + "/cpulist") // node -1 has no list
			}
			o.Near = near[node]
		}
		all = append(all, o)
	}
	return all, errors.Join(errs...)
}

// describe adds ID, Label and Unused. Controller and number distinguish an interrupt from an earlier
// one with the same number, whose device is gone.
func (s irqs) describe(o *Observed) {
	dir := "kernel/irq/" + o.Name + "/"
	attr := func(name string) (string, bool) {
		v, err := s.sys.Read(dir + name)
		return strings.TrimSpace(v), err == nil
	}
	chip, _ := attr("chip_name")
	number, _ := attr("hwirq")
	o.ID = strings.TrimSpace(chip + " " + number)
	if actions, known := attr("actions"); known {
		o.Label, o.Unused = actions, actions == ""
		return
	}
	entries, err := fs.ReadDir(s.proc.FS, "irq/"+o.Name) // each handler has a directory
	for _, e := range entries {
		if e.IsDir() {
			o.Label = strings.TrimPrefix(o.Label+","+e.Name(), ",")
		}
	}
	o.Unused = err == nil && o.Label == ""
}

func (s irqs) Write(_ context.Context, k Knob, value string) error {
	return s.proc.WriteFile("irq/"+k.Name+"/smp_affinity_list", value)
}

type rps struct {
	sys   Dir
	nbits int
}

// ReceiveQueues returns the source of the CPUs for Receive Packet Steering. sys shows the
// interfaces of the network namespace in which it was mounted.
func ReceiveQueues(sys Dir, m Machine) Source { return rps{sys, m.Possible.Last() + 1} }

func (s rps) Kinds() []Kind { return []Kind{RPS} }

func (s rps) Read(context.Context) ([]Observed, error) {
	interfaces, err := fs.ReadDir(s.sys.FS, "class/net")
	if isGone(err) {
		return nil, nil
	}
	var all []Observed
	errs := []error{err}
	for _, e := range interfaces {
		dir := "class/net/" + e.Name()
		index, err := s.sys.Read(dir + "/ifindex")
		if err != nil {
			continue // bonding_masters, or gone
		}
		queues, err := fs.ReadDir(s.sys.FS, dir+"/queues")
		if err != nil && !isGone(err) {
			errs = append(errs, err)
		}
		for _, q := range queues {
			if !strings.HasPrefix(q.Name(), "rx-") {
				continue
			}
			text, err := s.sys.Read(dir + "/queues/" + q.Name() + "/rps_cpus")
			if isGone(err) {
				continue // a kernel without RPS
			}
			var set cpuset.Set
			if err == nil {
				set, err = readMask(text, s.nbits)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("RPS of %s %s: %w", e.Name(), q.Name(), err))
				continue
			}
			all = append(all, Observed{Knob: Knob{RPS, e.Name() + "/" + q.Name()}, ID: index, Value: set.String()})
		}
	}
	return all, errors.Join(errs...)
}

func (s rps) Write(_ context.Context, k Knob, value string) error {
	name, queue, _ := strings.Cut(k.Name, "/")
	return writeMask(s.sys, "class/net/"+name+"/queues/"+queue+"/rps_cpus", value, s.nbits)
}
