package hotplug

import (
	"bytes"
	"strconv"
)

// cpuDevices is the directory of the CPUs' devices in sysfs.
const cpuDevices = "/devices/system/cpu/cpu"

// Event is a change of a CPU.
type Event struct {
	// Action is add, remove, online, offline or another value of kobject_actions in
	// lib/kobject_uevent.c.
	Action string
	CPU    int
}

// Parse reads a uevent: "offline@/devices/system/cpu/cpu3", then variables like
// SUBSYSTEM=cpu. A zero byte ends each of them. It reports false for a message about
// another device, or in another format, such as udevd's.
func Parse(message []byte) (Event, bool) {
	header, rest, ok := bytes.Cut(message, []byte{0})
	if !ok {
		return Event{}, false
	}
	action, device, ok := bytes.Cut(header, []byte{'@'})
	if !ok {
		return Event{}, false
	}
	number, ok := bytes.CutPrefix(device, []byte(cpuDevices))
	if !ok {
		return Event{}, false
	}
	cpu, err := strconv.ParseUint(string(number), 10, 31)
	if err != nil || variable(rest, "SUBSYSTEM") != "cpu" || variable(rest, "ACTION") != string(action) {
		return Event{}, false
	}
	return Event{Action: string(action), CPU: int(cpu)}, true
}

func variable(variables []byte, name string) string {
	for v := range bytes.SplitSeq(variables, []byte{0}) {
		if key, value, ok := bytes.Cut(v, []byte{'='}); ok && string(key) == name {
			return string(value)
		}
	}
	return ""
}
