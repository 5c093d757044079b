package hotplug_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hotplug"
)

// message returns a uevent in the kernel's format.
func message(lines ...string) []byte { return []byte(strings.Join(lines, "\x00") + "\x00") }

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name    string
		message []byte
		want    hotplug.Event
		about   bool
	}{
		{"offline", message("offline@/devices/system/cpu/cpu3", "ACTION=offline", "DEVPATH=/devices/system/cpu/cpu3", "SUBSYSTEM=cpu",
			"DRIVER=processor", "MODALIAS=cpu:type:x86,ven0002fam000Fmod006B:feature:,0000", "SEQNUM=1507"), hotplug.Event{Action: "offline", CPU: 3}, true},
		{"online", message("online@/devices/system/cpu/cpu12", "ACTION=online", "SUBSYSTEM=cpu"), hotplug.Event{Action: "online", CPU: 12}, true},
		{"add", message("add@/devices/system/cpu/cpu8", "ACTION=add", "SUBSYSTEM=cpu"), hotplug.Event{Action: "add", CPU: 8}, true},
		{"another device", message("add@/devices/virtual/net/veth0", "ACTION=add", "SUBSYSTEM=net"), hotplug.Event{}, false},
		{"below a CPU", message("add@/devices/system/cpu/cpu3/cache", "ACTION=add", "SUBSYSTEM=cpu"), hotplug.Event{}, false},
		{"all CPUs", message("change@/devices/system/cpu", "ACTION=change", "SUBSYSTEM=cpu"), hotplug.Event{}, false},
		{"another subsystem", message("add@/devices/system/cpu/cpu3", "ACTION=add", "SUBSYSTEM=workqueue"), hotplug.Event{}, false},
		{"two actions", message("add@/devices/system/cpu/cpu3", "ACTION=remove", "SUBSYSTEM=cpu"), hotplug.Event{}, false},
		{"no CPU number", message("add@/devices/system/cpu/cpufreq", "ACTION=add", "SUBSYSTEM=cpu"), hotplug.Event{}, false},
		{"of udevd", []byte("libudev\x00\xfe\xed\xca\xfe"), hotplug.Event{}, false},
		{"cut off", []byte("offline@/devices/system/cpu/cpu3"), hotplug.Event{}, false},
		{"nothing", nil, hotplug.Event{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, about := hotplug.Parse(test.message)
			if got != test.want || about != test.about {
				t.Errorf("Parse = %+v, %t; want %+v, %t", got, about, test.want, test.about)
			}
		})
	}
}

// FuzzParse checks that only messages about a CPU give an event.
func FuzzParse(f *testing.F) {
	f.Add(message("offline@/devices/system/cpu/cpu3", "ACTION=offline", "SUBSYSTEM=cpu"))
	f.Add(message("@/devices/system/cpu/cpu", "", "=", "SUBSYSTEM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, about := hotplug.Parse(b)
		if !about {
			if e != (hotplug.Event{}) {
				t.Errorf("Parse = %+v, and it is about no CPU", e)
			}
			return
		}
		if e.CPU < 0 || !strings.HasPrefix(string(b), e.Action+"@/devices/system/cpu/cpu") || !strings.Contains(string(b), "SUBSYSTEM=cpu") {
			t.Errorf("Parse(%q) = %+v", b, e)
		}
	})
}
