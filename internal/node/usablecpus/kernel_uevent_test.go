package usablecpus_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
)

// message returns a uevent in the kernel's format.
func message(lines ...string) []byte { return []byte(strings.Join(lines, "\x00") + "\x00") }

func TestIsAboutCPU(t *testing.T) {
	for _, test := range []struct {
		name    string
		message []byte
		want    bool
	}{
		{"offline", message("offline@/devices/system/cpu/cpu3", "ACTION=offline", "DEVPATH=/devices/system/cpu/cpu3", "SUBSYSTEM=cpu",
			"DRIVER=processor", "MODALIAS=cpu:type:x86,ven0002fam000Fmod006B:feature:,0000", "SEQNUM=1507"), true},
		{"online", message("online@/devices/system/cpu/cpu12", "ACTION=online", "SUBSYSTEM=cpu"), true},
		{"add", message("add@/devices/system/cpu/cpu8", "ACTION=add", "SUBSYSTEM=cpu"), true},
		{"another device", message("add@/devices/virtual/net/veth0", "ACTION=add", "SUBSYSTEM=net"), false},
		{"below a CPU", message("add@/devices/system/cpu/cpu3/cache", "ACTION=add", "SUBSYSTEM=cpu"), false},
		{"all CPUs", message("change@/devices/system/cpu", "ACTION=change", "SUBSYSTEM=cpu"), false},
		{"another subsystem", message("add@/devices/system/cpu/cpu3", "ACTION=add", "SUBSYSTEM=workqueue"), false},
		{"two actions", message("add@/devices/system/cpu/cpu3", "ACTION=remove", "SUBSYSTEM=cpu"), false},
		{"no CPU number", message("add@/devices/system/cpu/cpufreq", "ACTION=add", "SUBSYSTEM=cpu"), false},
		{"of udevd", []byte("libudev\x00\xfe\xed\xca\xfe"), false},
		{"cut off", []byte("offline@/devices/system/cpu/cpu3"), false},
		{"nothing", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := usablecpus.IsAboutCPU(test.message); got != test.want {
				t.Errorf("IsAboutCPU = %t; want %t", got, test.want)
			}
		})
	}
}

// FuzzIsAboutCPU checks that only messages of the kernel about a CPU count.
func FuzzIsAboutCPU(f *testing.F) {
	f.Add(message("offline@/devices/system/cpu/cpu3", "ACTION=offline", "SUBSYSTEM=cpu"))
	f.Add(message("@/devices/system/cpu/cpu", "", "=", "SUBSYSTEM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if usablecpus.IsAboutCPU(b) && (!strings.Contains(string(b), "@/devices/system/cpu/cpu") || !strings.Contains(string(b), "SUBSYSTEM=cpu")) {
			t.Errorf("IsAboutCPU(%q)", b)
		}
	})
}
