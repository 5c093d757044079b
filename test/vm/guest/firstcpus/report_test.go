//go:build guest

package firstcpus_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// startReport holds the values that a container's process found at its start.
type startReport struct {
	cpus      cpuset.Set // Cpus_allowed_list
	beganWith string     // how many CPUs it was allowed when it was executed
	on        cpuset.Set // the CPU that it was on
	told      string     // CPUPOOL_CPUS in its environment: only with NRI
}

// readReport waits until the process of a container has reported all values.
func (n *node) readReport(p pod) (found startReport) {
	n.Helper()
	n.Eventually("report of "+p.name, func() error {
		data, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		values := read(string(data))
		last := "cgroup"
		if n.Runtime.NRI {
			last = "env CPUPOOL_CPUS"
		}
		if _, complete := values[last]; !complete {
			return fmt.Errorf("no %q yet: %s", last, data)
		}
		found = startReport{beganWith: values["began-with"], told: values["env CPUPOOL_CPUS"]}
		if found.cpus, err = cpuset.Parse(values["cpus"]); err != nil {
			return err
		}
		found.on, err = cpuset.Parse(values["on"])
		return err
	})
	return found
}

// read returns the values of a log in CRI's format, each line of which is time, stream, tag and text, by their names. Variables of the
// environment are named "env NAME".
func read(log string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(log) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(fields) < 4 {
			continue
		}
		name, value, _ := strings.Cut(fields[3], " ")
		if name == "env" {
			variable, v, _ := strings.Cut(value, "=")
			name, value = "env "+variable, v
		}
		values[name] = value
	}
	return values
}

// place is the expected pool of a container.
type place struct {
	pool  cpuset.Set
	count int // of its CPUs; 0 where others take CPUs of the pool, and give them back, while it begins
}

// outside returns the first error of a report, or an empty string.
func (p place) outside(w startReport, nri bool) string {
	told, err := cpuset.Parse(w.told)
	switch {
	case !w.cpus.IsSubsetOf(p.pool) || w.cpus.IsEmpty() || p.count != 0 && w.cpus.Len() != p.count:
		return fmt.Sprintf("began on CPUs %s; want %s", w.cpus, p)
	case !p.began(w.beganWith):
		return fmt.Sprintf("was executed with %s CPUs; want %s", w.beganWith, p)
	case !w.on.IsSubsetOf(p.pool) || p.count != 0 && !w.on.IsSubsetOf(w.cpus):
		return fmt.Sprintf("was on CPU %s; allowed were %s", w.on, w.cpus)
	case nri && (err != nil || !told.IsSubsetOf(p.pool) || p.count != 0 && !told.Equal(w.cpus)):
		return fmt.Sprintf("CPUPOOL_CPUS=%q; allowed were %s", w.told, w.cpus)
	}
	return ""
}

// began reports whether a process in this place may have been executed with that many
// CPUs.
func (p place) began(with string) bool {
	var count int
	if _, err := fmt.Sscan(with, &count); err != nil {
		return false
	}
	if p.count == 0 {
		return count > 0 && count <= p.pool.Len()
	}
	return count == p.count
}

func (p place) String() string {
	if p.count == 0 {
		return "some of " + p.pool.String()
	}
	return fmt.Sprintf("%d of %s", p.count, p.pool)
}
