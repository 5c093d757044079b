package machines

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// add adds a line to the machine.
func (m *Machine) add(line string) error {
	key, value, _ := strings.Cut(line, " ")
	value = strings.TrimSpace(value)
	fields := strings.Fields(value)
	var err error
	switch key {
	case "cpus":
		m.online, err = list(value)
	case "offline":
		m.offline, err = list(value)
	case "isolated":
		m.isolated, err = list(value)
	case "nohz-full":
		m.nohzFull, err = list(value)
	case "old-names":
		m.oldNames = true
	case "warning":
		m.Warnings = append(m.Warnings, value)
	case "package":
		m.packages, err = numbered(m.packages, fields)
	case "book":
		m.books, err = numbered(m.books, fields)
	case "die":
		m.dies, err = numbered(m.dies, fields)
	case "cache":
		m.caches, err = numbered(m.caches, fields)
	case "node":
		m.nodes, err = numbered(m.nodes, fields)
	case "capacity":
		m.capacities, err = numbered(m.capacities, fields)
	case "frequency":
		m.frequencies, err = numbered(m.frequencies, fields)
	case "core":
		m.cores, err = numbered(m.cores, append([]string{"0"}, fields...))
	case "no-cpus":
		err = m.withoutCPUs(value)
	case "no-memory":
		m.noMemory, err = list(value)
	case "distance":
		var row []int
		row, err = numbers(strings.Join(fields, ","))
		m.distances = append(m.distances, row)
	case "pmu":
		name, cpus, _ := strings.Cut(value, " ")
		m.pmus[name], err = list(cpus)
	case "want-performance":
		m.performance, err = list(value)
	case "want-efficiency":
		m.efficiency, err = list(value)
	case "want-package", "want-die", "want-node":
		err = m.expect(key, fields)
	case "want-cache", "want-core":
		err = m.expect(key, append([]string{"0"}, fields...))
	default:
		err = errors.New("unknown key")
	}
	return err
}

func (m *Machine) expect(key string, fields []string) (err error) {
	key = strings.TrimPrefix(key, "want-")
	m.want[key], err = numbered(m.want[key], fields)
	return err
}

// withoutCPUs adds nodes that have no CPUs.
func (m *Machine) withoutCPUs(value string) error {
	ids, err := numbers(value)
	for _, id := range ids {
		m.nodes = append(m.nodes, group{number: id})
	}
	return err
}

// numbered adds groups to others. The first field holds one number for each group, one number
// for all groups, or "-" for groups without a number.
func numbered(groups []group, fields []string) ([]group, error) {
	if len(fields) < 2 {
		return nil, errors.New("want numbers and groups")
	}
	var sets []cpuset.Set
	for _, field := range fields[1:] {
		more, err := expand(field)
		if err != nil {
			return nil, err
		}
		sets = append(sets, more...)
	}
	ids := []int{unnumbered}
	if fields[0] != "-" {
		var err error
		if ids, err = numbers(fields[0]); err != nil {
			return nil, err
		}
	}
	if len(ids) == 1 {
		ids = slices.Repeat(ids, len(sets))
	}
	if len(ids) != len(sets) {
		return nil, fmt.Errorf("%d numbers for %d groups", len(ids), len(sets))
	}
	for i, set := range sets {
		groups = append(groups, group{ids[i], set})
	}
	return groups, nil
}

// numbers reads numbers and ranges in any order, with commas between them.
func numbers(text string) ([]int, error) {
	var all []int
	for element := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(element, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q is not a list of numbers", text)
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all, nil
}

// expand returns the groups that LIST, LIST/SIZE, or one of them with +OFFSET stands for.
func expand(text string) ([]cpuset.Set, error) {
	if text == "-" {
		return []cpuset.Set{{}}, nil
	}
	text, offsets, _ := strings.Cut(text, "+")
	size := 0
	if i := strings.LastIndex(text, "/"); strings.Count(text, "/") > strings.Count(text, ":") {
		var err error
		if size, err = strconv.Atoi(text[i+1:]); err != nil || size < 1 {
			return nil, fmt.Errorf("%q is not the size of a group", text[i+1:])
		}
		text = text[:i]
	}
	all, err := list(text)
	if err != nil {
		return nil, err
	}
	cpus := slices.Collect(all.All())
	if size == 0 {
		size = max(1, len(cpus))
	}
	if len(cpus)%size != 0 {
		return nil, fmt.Errorf("%d CPUs are no multiple of %d", len(cpus), size)
	}
	var groups []cpuset.Set
	for first := range slices.Chunk(cpus, size) {
		members := slices.Clone(first)
		for offset := range strings.SplitSeq(offsets, "+") {
			n, err := strconv.Atoi(offset)
			if err != nil && offsets != "" {
				return nil, fmt.Errorf("%q is not an offset", offset)
			}
			for _, cpu := range first {
				members = append(members, cpu+n)
			}
		}
		groups = append(groups, cpuset.Of(members...))
	}
	return groups, nil
}

// list reads CPUs in the kernel's form, "0-86:1/2" for every second one.
func list(text string) (cpuset.Set, error) { return cpuset.ParseKernel(text, cpuset.MaxCPUs) }
