// Package pooltext reads the pools of test cases from short texts.
package pooltext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// Parse reads lines like
//
//	management 0-1 ns1,ns2   or all, or auto
//	shared 2-3               or rest
//	guaranteed 4-7 floor=2 full-pcpus-only=true bind-memory    or none, or shared
//	overrides full-pcpus-only,core-type
//	mixed 2-3 ns1,ns2        or shared, and * for all namespaces
//	pause management
//	reservation loose
//	unit du.service 4        or the name of a pool
func Parse(text string) (poolspec.Spec, error) {
	s := poolspec.Spec{StrictReservation: true}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return s, fmt.Errorf("%q: want a name and CPUs", line)
		}
		if err := parseLine(&s, f); err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	return s, nil
}

func parseLine(s *poolspec.Spec, f []string) error {
	switch f[0] {
	case "shared":
		if f[1] == "rest" {
			return nil
		}
		cpus, err := cpuset.Parse(f[1])
		s.Shared = &cpus
		return err
	case "guaranteed":
		return parseGuaranteed(&s.Guaranteed, f)
	case "overrides":
		s.Guaranteed.Overrides = strings.Split(f[1], ",")
		return nil
	case "mixed":
		return parseMixed(&s.Guaranteed.Mixed, f)
	case "pause":
		s.Infra = f[1]
		return nil
	case "reservation":
		s.StrictReservation = f[1] != "loose"
		return nil
	case "unit":
		u := pools.UnitSpec{Name: f[1]}
		if n, err := strconv.Atoi(f[2]); err == nil {
			u.CPUs = n
		} else {
			u.Pool = f[2]
		}
		s.Units = append(s.Units, u)
		return nil
	}
	p := poolspec.Partition{Type: f[0], All: f[1] == "all", Auto: f[1] == "auto"}
	if len(f) > 2 {
		p.Namespaces = strings.Split(f[2], ",")
	}
	var err error
	if !p.All && !p.Auto {
		p.CPUs, err = cpuset.Parse(f[1])
	}
	s.Partitions = append(s.Partitions, p)
	return err
}

func parseMixed(m *pools.Mixed, f []string) (err error) {
	if m.Shared = f[1] == "shared"; !m.Shared {
		m.CPUs, err = cpuset.Parse(f[1])
	}
	if len(f) > 2 {
		m.Namespaces = strings.Split(f[2], ",")
	}
	return err
}

func parseGuaranteed(g *poolspec.Guaranteed, f []string) error {
	var err error
	switch f[1] {
	case "none":
	case "shared":
		g.FromShared = true
	default:
		g.CPUs, err = cpuset.Parse(f[1])
	}
	for _, word := range f[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "floor":
			if part, is := strings.CutSuffix(value, "%"); is {
				g.FloorPercent, err = strconv.Atoi(part)
			} else {
				g.Floor, err = strconv.Atoi(value)
			}
		case "bind-memory":
			g.BindMemory = true
		default:
			err = g.Options.Set(key, value)
		}
		if err != nil {
			return err
		}
	}
	return err
}
