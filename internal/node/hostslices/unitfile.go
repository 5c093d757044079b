package hostslices

import (
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Assignment is one key of a unit file with its value.
type Assignment struct{ Key, Value string }

// ParseUnitFile reads the assignments of a unit file or a drop-in in their order
// (systemd.syntax(7)). What systemd would not understand is skipped, as systemd
// does. The sections do not matter: resource control has the same keys in all.
func ParseUnitFile(b []byte) []Assignment {
	var all []Assignment
	joined := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue // also in the middle of a line that goes on
		}
		if slashes := len(line) - len(strings.TrimRight(line, `\`)); slashes%2 == 1 {
			joined += line[:len(line)-1] + " "
			continue
		}
		key, value, ok := strings.Cut(joined+line, "=")
		joined = ""
		if key = strings.TrimSpace(key); ok && !strings.HasPrefix(key, "[") {
			all = append(all, Assignment{key, strings.TrimSpace(value)})
		}
	}
	return all
}

// Setting is what an administrator has written about a unit's CPUs.
type Setting struct {
	CPUs cpuset.Set // AllowedCPUs; empty if nobody has
	File string     // that says so last
}

// Where systemd keeps what was set over D-Bus, by cpupoold among others: until the
// next boot, and for good.
const (
	runtimeControl   = "/run/systemd/system.control/"
	runtimeTransient = "/run/systemd/transient/"
	lastingControl   = "/etc/systemd/system.control/"
)

// Administrators are those of a unit's files that cpupoold has no part in.
func Administrators(files []string) []string {
	var all []string
	for _, name := range files {
		if !strings.HasPrefix(name, runtimeControl) && !strings.HasPrefix(name, runtimeTransient) {
			all = append(all, name)
		}
	}
	return all
}

// OfTheHost makes read find unit files of the host from within a container too: one in
// the host's PID namespace sees them by way of the host's init. Where that cannot be
// seen, they are read as they are named.
func OfTheHost(read func(name string) ([]byte, error)) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		b, err := read(path.Join("/proc/1/root", name))
		if err != nil {
			return read(name)
		}
		return b, nil
	}
}

// Settings returns what the administrators' files of a unit say, in systemd's order
// of them: AllowedCPUs adds to what was said before, and an empty one resets it. A
// file that cannot be read counts if its name tells what is in it; has are the CPUs
// that systemd has for the unit.
func Settings(files []string, has cpuset.Set, read func(name string) ([]byte, error)) Setting {
	var s Setting
	for _, name := range Administrators(files) {
		b, err := read(name)
		if err != nil {
			if strings.HasPrefix(name, lastingControl) && path.Base(name) == "50-"+cgroup.UnitCPUs+".conf" && !has.IsEmpty() {
				s = Setting{CPUs: has, File: name}
			}
			continue
		}
		for _, a := range ParseUnitFile(b) {
			if a.Key != cgroup.UnitCPUs {
				continue
			}
			if a.Value == "" {
				s = Setting{}
				continue
			}
			// systemd takes blanks for commas, and skips what it cannot read.
			cpus, err := cpuset.Parse(strings.Join(strings.FieldsFunc(a.Value, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' }), ","))
			if err == nil {
				s = Setting{CPUs: s.CPUs.Union(cpus), File: name}
			}
		}
	}
	if s.CPUs.IsEmpty() {
		return Setting{}
	}
	return s
}
