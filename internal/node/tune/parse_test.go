package tune

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestParseSetup(t *testing.T) {
	for text, want := range map[string]string{
		"SLEEP 10 BANNED 00000000,00000030":                            "4-5",
		"SLEEP 10 IRQ 24 LOAD 1 DIFF 2 CLASS 3 BANNED 30":              "4-5",
		"SLEEP 10 BANNED 0000000000000000000000000000000000000000000f": "0-3",
		"SLEEP 10 BANNED ": "",
	} {
		if got, err := parseSetup(text, 8); err != nil || got.String() != want {
			t.Errorf("parseSetup(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "SLEEP 10", "SLEEP 10 BANNED x", "SLEEP 10 BANNED 100"} {
		if got, err := parseSetup(bad, 8); err == nil {
			t.Errorf("parseSetup(%q) = %q without an error", bad, got)
		}
	}
}

func TestParseBanned(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"# IRQBALANCE_BANNED_CPULIST=1\nOPTIONS=--x\n":                  "",
		"IRQBALANCE_BANNED_CPULIST=1-2\n":                               "1-2",
		"IRQBALANCE_BANNED_CPULIST=\"4,6\"":                             "4,6",
		"IRQBALANCE_BANNED_CPUS=0xf0\nIRQBALANCE_BANNED_CPULIST=1":      "4-7",
		"export IRQBALANCE_BANNED_CPUS='00000000,0000000c'\n":           "2-3",
		"IRQBALANCE_BANNED_CPULIST=\n":                                  "",
		"IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=2-3 \n": "2-3",
	} {
		if got, err := parseBanned(text, 8); err != nil || got.String() != want {
			t.Errorf("parseBanned(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"IRQBALANCE_BANNED_CPULIST=a", "IRQBALANCE_BANNED_CPUS=1ff"} {
		if got, err := parseBanned(bad, 8); err == nil {
			t.Errorf("parseBanned(%q) = %q without an error", bad, got)
		}
	}
}

// FuzzParseSetup checks that the result has only possible CPUs.
func FuzzParseSetup(f *testing.F) {
	f.Add("SLEEP 10 BANNED 00000000,000000f0")
	f.Add("BANNED")
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := parseSetup(s, 8); err == nil && got.Last() > 7 {
			t.Errorf("CPUs %s", got)
		}
	})
}

func FuzzParseBanned(f *testing.F) {
	f.Add("IRQBALANCE_BANNED_CPUS=f0\nIRQBALANCE_BANNED_CPULIST=1-3\n")
	f.Add("IRQBALANCE_BANNED_CPULIST=\"1")
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := parseBanned(s, 64); err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: error of %d bytes", got, len(err.Error()))
		}
	})
}

// FuzzDecodeUndo checks that decoded data is the same after encoding and decoding.
func FuzzDecodeUndo(f *testing.F) {
	good, err := durable.Encode(undoVersion, undoData{BootID: "b", Records: []Record{{Knob: Knob{IRQ, "24"}, Original: "0-7", Wrote: "0-3"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"data":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d, d2 undoData
		if durable.Decode(b, undoVersion, undoVersion, &d) != nil {
			return
		}
		again, err := durable.Encode(undoVersion, d)
		if err != nil {
			t.Fatal(err)
		}
		if err := durable.Decode(again, undoVersion, undoVersion, &d2); err != nil || len(d2.Records) != len(d.Records) || d2.BootID != d.BootID {
			t.Fatalf("round trip: %+v, %v; want %+v", d2, err, d)
		}
	})
}

// FuzzPlan checks the plan of a mask with any record:
//   - a written mask has an online CPU, and no quiet CPU unless the knob is stuck;
//   - a second plan, after the writes, has no changes;
//   - a mask without an earlier record gets its first value back.
func FuzzPlan(f *testing.F) {
	f.Add(uint8(0xff), uint8(0xff), uint8(0xff), uint8(0x30), false)
	f.Add(uint8(0x10), uint8(0xff), uint8(0x0f), uint8(0x30), true)
	f.Add(uint8(0xcf), uint8(0x10), uint8(0xcf), uint8(0x30), true)
	f.Fuzz(func(t *testing.T, now, original, wrote, away uint8, known bool) {
		m := Machine{Possible: cpuset.Range(0, 7), Online: cpuset.Range(0, 6)}
		of := func(b uint8) cpuset.Set {
			var cpus []int
			for i := range 8 {
				if b&(1<<i) != 0 {
					cpus = append(cpus, i)
				}
			}
			return cpuset.Of(cpus...)
		}
		if now == 0 || original == 0 || wrote == 0 {
			return
		}
		knob := Knob{IRQ, "24"}
		o := Observed{Knob: knob, Value: of(now).String()}
		var undo []Record
		if known {
			undo = []Record{{Knob: knob, Original: of(original).String(), Wrote: of(wrote).String()}}
		}
		w := Desired{Quiet: of(away)}
		d := Plan(w, []Observed{o}, undo, m, nil)
		for _, c := range d.Changes {
			to := set(t, c.To)
			if !to.Overlaps(m.Online) || len(d.Stuck) == 0 && to.Overlaps(w.Quiet) {
				t.Errorf("change %+v with quiet CPUs %s", c, w.Quiet)
			}
			o.Value = c.To
		}
		if again := Plan(w, []Observed{o}, d.Records, m, nil); len(again.Changes) != 0 {
			t.Errorf("after %+v: %+v; want none", d.Changes, again.Changes)
		}
		for _, c := range Plan(Desired{}, []Observed{o}, d.Records, m, nil).Changes {
			o.Value = c.To
		}
		if before := of(now); !known && before.Overlaps(m.Online) && !set(t, o.Value).Equal(before) {
			t.Errorf("restored: %s; want %s", o.Value, before)
		}
	})
}
