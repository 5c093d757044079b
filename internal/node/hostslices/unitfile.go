package hostslices

import (
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Assignment is one key of a unit file with its value.
type Assignment struct{ Key, Value string }

// ParseUnitFile returns the assignments of a unit file or drop-in in their order
// (systemd.syntax(7)). Like systemd, it skips invalid lines. It ignores sections, because
// resource control has the same keys in all of them.
func ParseUnitFile(b []byte) []Assignment {
	var all []Assignment
	joined := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue // also between the lines of a continued assignment
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

// Setting is an administrator's setting of a unit's CPUs.
type Setting struct {
	CPUs cpuset.Set // AllowedCPUs; empty without a setting
	File string     // the last file with AllowedCPUs
}

// Directories of properties from D-Bus. cpupoold sets them until the next boot (the first two).
const (
	runtimeControl   = "/run/systemd/system.control/"
	runtimeTransient = "/run/systemd/transient/"
	lastingControl   = "/etc/systemd/system.control/"
)

// OfTheHost returns a reader of the host's unit files that also works in a container. In
// the host's PID namespace, the root directory of process 1 is the host's. If the file
// cannot be read there, the reader uses the path itself.
func OfTheHost(read func(name string) ([]byte, error)) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		b, err := read(path.Join("/proc/1/root", name))
		if err != nil {
			return read(name)
		}
		return b, nil
	}
}

// Settings returns the AllowedCPUs of the administrators' files of a unit. The files are in
// systemd's order: a value adds to the earlier ones, and an empty value resets them. has are
// the CPUs that systemd has for the unit. They are the value of an unreadable file if its
// name shows that it sets AllowedCPUs.
func Settings(files []string, has cpuset.Set, read func(name string) ([]byte, error)) Setting {
	var s Setting
	for _, name := range files {
		if strings.HasPrefix(name, runtimeControl) || strings.HasPrefix(name, runtimeTransient) {
			continue
		}
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
			// systemd also accepts blanks as separators, and skips invalid values.
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
