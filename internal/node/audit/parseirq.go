package audit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Line is a line of /proc/interrupts or /proc/softirqs.
type Line struct {
	// Name is the number of a device interrupt, the abbreviation of an architecture's interrupt
	// (LOC, RES), or the name of a softirq.
	Name string
	// Text follows the counts. A device interrupt has chip, hardware number and actions there.
	Text   string
	Counts map[int]uint64 // by CPU, without zero counts
}

// maxLines bounds the memory for one file.
const maxLines = 1 << 16

// ParseCounts parses /proc/interrupts and /proc/softirqs. The first line names the CPU of each
// column. Lines that count for the whole machine (ERR, MIS) are skipped.
func ParseCounts(b []byte) ([]Line, error) {
	head, rest, _ := bytes.Cut(b, []byte("\n"))
	var cpus []int
	for f := range strings.FieldsSeq(string(head)) {
		number, found := strings.CutPrefix(f, "CPU")
		cpu, err := strconv.ParseUint(number, 10, 31)
		if !found || err != nil || cpu >= cpuset.MaxCPUs {
			return nil, fmt.Errorf("interrupts: first line: %q: %w", f, errForm)
		}
		cpus = append(cpus, int(cpu)) //nolint:gosec // below MaxCPUs
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("interrupts: no CPUs in the first line: %w", errForm)
	}
	var all []Line
	for raw := range bytes.Lines(rest) {
		name, columns, found := strings.Cut(string(raw), ":")
		if name = strings.TrimSpace(name); !found || name == "" || strings.ContainsAny(name, " \t") || len(all) == maxLines {
			return nil, fmt.Errorf("interrupts: %.40q: %w", raw, errForm)
		}
		l := Line{Name: strings.Clone(name), Counts: make(map[int]uint64)} // copied, because the line with a column for each CPU must not stay in memory
		if l.Text, found = l.count(columns, cpus); !found {
			continue
		}
		all = append(all, l)
	}
	return all, nil
}

// count parses a number for each CPU. whole reports whether all exist.
func (l *Line) count(columns string, cpus []int) (text string, whole bool) {
	for _, cpu := range cpus {
		columns = strings.TrimLeft(columns, " \t")
		end := strings.IndexAny(columns, " \t\n")
		if end < 0 {
			end = len(columns)
		}
		n, err := strconv.ParseUint(columns[:end], 10, 64)
		if err != nil {
			return "", false
		}
		if columns = columns[end:]; n > 0 {
			l.Counts[cpu] = n
		}
	}
	return strings.Clone(strings.Join(strings.Fields(columns), " ")), true
}

// isDevice reports whether the interrupt belongs to a device, and so has an affinity. All others
// belong to the architecture: local timers, interrupts between CPUs, errors. On arm64, the timer
// and the PMU of a CPU have a number but no affinity (drivers/clocksource/arm_arch_timer.c,
// drivers/perf/arm_pmu.c).
func (l Line) isDevice() bool {
	if _, err := strconv.ParseUint(l.Name, 10, 31); err != nil {
		return false
	}
	for _, own := range []string{"arch_timer", "arm-pmu", "arm_pmu", "kvm guest vtimer", "kvm guest ptimer", "vgic", "IPI"} {
		if strings.HasSuffix(l.Text, " "+own) || strings.Contains(l.Text, " "+own+" ") {
			return false
		}
	}
	return true
}

// since returns the increments. A smaller count restarts at zero: the interrupt was set up again.
func since(earlier, now []Line) []Line {
	type key struct{ name, text string }
	was := make(map[key]map[int]uint64, len(earlier))
	for _, l := range earlier {
		was[key{l.Name, l.Text}] = l.Counts
	}
	var all []Line
	for _, l := range now {
		d := Line{Name: l.Name, Text: l.Text, Counts: make(map[int]uint64)}
		before := was[key{l.Name, l.Text}]
		for cpu, n := range l.Counts {
			if n < before[cpu] {
				d.Counts[cpu] = n
			} else if n > before[cpu] {
				d.Counts[cpu] = n - before[cpu]
			}
		}
		all = append(all, d)
	}
	return all
}

// sumOn returns the sum of counts by CPU on cpus, and the CPUs with a count.
func sumOn(counts map[int]uint64, cpus cpuset.Set) (n uint64, where cpuset.Set) {
	for cpu := range cpus.All() {
		if c := counts[cpu]; c > 0 {
			n += c
			where = where.Union(cpuset.Of(cpu))
		}
	}
	return n, where
}
