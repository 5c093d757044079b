package noise_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestReport(t *testing.T) {
	own := cpuset.Range(4, 7)
	half := cpuset.Range(4, 5)
	all := noise.Machine{Boot: noise.Boot{NoCallbacks: own, ManagedIRQ: own}, Isolated: own, NohzFull: own}
	for name, c := range map[string]struct {
		machine noise.Machine
		mode    noise.Mode
		want    string
		args    string
	}{
		"nothing at boot": {
			mode: noise.CPUSet, want: "cpuset, load balancing node, with timer tick, RCU callbacks, managed interrupts",
			args: "nohz_full=4-7 rcu_nocbs=4-7 isolcpus=managed_irq,4-7",
		},
		"root": {
			mode: noise.Root, want: "partition-root, load balancing own, with timer tick, RCU callbacks, managed interrupts",
			args: "nohz_full=4-7 rcu_nocbs=4-7 isolcpus=managed_irq,4-7",
		},
		"isolated": {
			mode: noise.Isolated, want: "partition-isolated, load balancing off, with timer tick, RCU callbacks, managed interrupts",
			args: "nohz_full=4-7 rcu_nocbs=4-7 isolcpus=managed_irq,4-7",
		},
		"all at boot": {machine: all, mode: noise.CPUSet, want: "cpuset, load balancing off"},
		"nohz_full offloads callbacks": {
			machine: noise.Machine{NohzFull: own}, mode: noise.CPUSet,
			want: "cpuset, load balancing node, with managed interrupts", args: "isolcpus=managed_irq,4-7",
		},
		"half, and others": {
			machine: noise.Machine{Boot: noise.Boot{NoCallbacks: half, ManagedIRQ: half}, Isolated: half, NohzFull: cpuset.Range(2, 3)}, mode: noise.Root,
			want: "partition-root, load balancing own, with timer tick, RCU callbacks (CPUs 6-7), managed interrupts (CPUs 6-7)",
			args: "nohz_full=2-7 rcu_nocbs=4-7 isolcpus=managed_irq,4-7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.machine.Of(own, c.mode)
			if d := cmp.Diff(c.want, r.String()); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
			args := c.machine.Arguments(own)
			if d := cmp.Diff(c.args, strings.Join(args, " ")); d != "" {
				t.Errorf("arguments (-want +got):\n%s", d)
			}
			// A machine that has booted with these arguments needs no others.
			b, err := noise.ParseBoot(strings.Join(args, " "), 8)
			if err != nil {
				t.Fatal(err)
			}
			next := c.machine
			next.NohzFull = next.NohzFull.Union(own)
			next.NoCallbacks, next.ManagedIRQ = next.NoCallbacks.Union(b.NoCallbacks), next.ManagedIRQ.Union(b.ManagedIRQ)
			if r := next.Of(own, c.mode); !r.Tick.IsEmpty() || !r.RCU.IsEmpty() || !r.ManagedIRQ.IsEmpty() || next.Arguments(own) != nil {
				t.Errorf("booted with its arguments it has %s and wants %v", r, next.Arguments(own))
			}
		})
	}
}

func TestParseBoot(t *testing.T) {
	for line, want := range map[string]struct {
		rcu, irq, all cpuset.Set
		bad           string
	}{
		"": {},
		"BOOT_IMAGE=/vmlinuz root=/dev/vda1 quiet\n":                {},
		"rcu_nocbs=4-7 isolcpus=managed_irq,4-7":                    {rcu: cpuset.Range(4, 7), irq: cpuset.Range(4, 7)},
		"rcu-nocbs=all":                                             {rcu: cpuset.Range(0, 7)},
		"rcu_nocbs":                                                 {},
		"irqaffinity=0-1 irqaffinity=2-3":                           {all: cpuset.Range(2, 3)},
		"irqaffinity=x":                                             {bad: "irqaffinity=x: not"},
		"rcu_nocbs=2 rcu_nocbs=4-N":                                 {rcu: cpuset.Range(4, 7)},
		"rcu_nocb_poll isolcpus=4-7":                                {},
		"isolcpus=domain,4-7":                                       {},
		"isolcpus=nohz,domain,managed_irq,4,6":                      {irq: cpuset.Of(4, 6)},
		"isolcpus=managed_irq,later,4":                              {irq: cpuset.Of(4)},
		"isolcpus=domain,2 isolcpus=managed_irq,4":                  {irq: cpuset.Of(4)},
		"isolcpus=managed_irq,4 isolcpus=managed_irq,5":             {irq: cpuset.Of(4)},
		"isolcpus=managed_irq":                                      {},
		"rcu_nocbs=4-7,9 isolcpus=managed_irq,4":                    {irq: cpuset.Of(4), bad: "rcu_nocbs=4-7,9: not"},
		"isolcpus=managed_irq,7-4 isolcpus=managed_irq,4":           {irq: cpuset.Of(4), bad: "isolcpus=managed_irq,7-4: not"},
		`dyndbg="file a +p rcu_nocbs=1" "rcu_nocbs=4,5" mce=off`:    {rcu: cpuset.Range(4, 5)},
		"rcu_nocbs=3 -- rcu_nocbs=4 isolcpus=managed_irq,4":         {rcu: cpuset.Of(3)},
		"xrcu_nocbs=3 isolcpus.x=managed_irq,3 module.isolcpus=4-5": {},
	} {
		b, err := noise.ParseBoot(line, 8)
		if !b.NoCallbacks.Equal(want.rcu) || !b.ManagedIRQ.Equal(want.irq) || !b.Interrupts.Equal(want.all) {
			t.Errorf("%q: callbacks not on %s, managed interrupts not on %s, interrupts on %s; want %s, %s and %s", line, b.NoCallbacks, b.ManagedIRQ, b.Interrupts, want.rcu, want.irq, want.all)
		}
		if (err == nil) != (want.bad == "") || err != nil && !strings.Contains(err.Error(), want.bad) {
			t.Errorf("%q: %v; want %q", line, err, want.bad)
		}
	}
}

func FuzzParseBoot(f *testing.F) {
	f.Add(`nohz_full=4-7 rcu_nocbs=4-7 isolcpus=domain,managed_irq,4-7 "a b"`)
	f.Fuzz(func(t *testing.T, line string) {
		b, _ := noise.ParseBoot(line, 8) // an invalid line also has a result
		if within := cpuset.Range(0, 7); !b.NoCallbacks.IsSubsetOf(within) || !b.ManagedIRQ.IsSubsetOf(within) || !b.Interrupts.IsSubsetOf(within) {
			t.Errorf("%q: %+v", line, b)
		}
	})
}
