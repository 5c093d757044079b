package pools_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// The text forms of the test cases in testdata.

// parseSpec reads lines like
//
//	management 0-1 ns1,ns2   or all, or auto
//	shared 2-3               or rest
//	guaranteed 4-7 floor=2 full-pcpus-only=true bind-memory    or none, or shared
//	overrides full-pcpus-only,core-type
//	mixed 2-3 ns1,ns2        or shared, and * for all namespaces
//	pause management
//	reservation loose
//	unit du.service 4        or the name of a pool
func parseSpec(text string) (pools.Spec, error) {
	s := pools.Spec{StrictReservation: true}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return s, fmt.Errorf("%q: want a name and CPUs", line)
		}
		if err := parseSpecLine(&s, f); err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	return s, nil
}

func parseSpecLine(s *pools.Spec, f []string) error {
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
	p := pools.PartitionSpec{Type: f[0], All: f[1] == "all", Auto: f[1] == "auto"}
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

func parseGuaranteed(g *pools.GuaranteedSpec, f []string) error {
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

// parsePods reads
//
//	pod UID NAMESPACE/NAME QOS [cpu=4] [gone] [settled] [unread]
//	annotation KEY VALUE
//	NAME ID STATE CREATED [cpu=1500m] [shares=N] [quota=N] [period=N] [nodes=LIST] [finished=N] [waiting] [pause]
//
// where the lines of a pod follow the one that begins it.
func parsePods(text string) ([]pools.Pod, error) {
	var pods []pools.Pod
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if f[0] != "pod" && len(pods) == 0 || len(f) < 3 {
			return nil, fmt.Errorf("%q: not a pod, or too short", line)
		}
		var err error
		switch f[0] {
		case "pod":
			p := pools.Pod{UID: f[1]}
			p.Namespace, p.Name, _ = strings.Cut(f[2], "/")
			if len(f) > 3 && f[3] != "-" {
				p.QoS = pools.QoS(f[3])
			}
			for _, word := range f[min(4, len(f)):] {
				switch word {
				case "gone":
					p.Gone = true
				case "settled":
					p.Settled = true
				case "unread":
					p.Unread = true
				default:
					err = setResource(&p.Resources, word)
				}
			}
			pods = append(pods, p)
		case "annotation":
			p := &pods[len(pods)-1]
			if p.Annotations == nil {
				p.Annotations = make(map[string]string)
			}
			_, value, _ := strings.Cut(line, f[1])
			p.Annotations[f[1]] = strings.TrimSpace(value)
		default:
			var c pools.Container
			c, err = parseContainer(f)
			p := &pods[len(pods)-1]
			p.Containers = append(p.Containers, c)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	return pods, nil
}

func parseContainer(f []string) (pools.Container, error) {
	c := pools.Container{Name: f[0], ID: f[1]}
	if len(f) < 4 {
		return c, fmt.Errorf("want name, id, state, created")
	}
	switch f[2] {
	case "created":
		c.State = pools.Created
	case "running":
		c.State = pools.Running
	case "exited":
		c.State = pools.Exited
	default:
		return c, fmt.Errorf("unknown state %q", f[2])
	}
	var err error
	if c.CreatedAt, err = strconv.ParseInt(f[3], 10, 64); err != nil {
		return c, err
	}
	for _, word := range f[4:] {
		nodes, hinted := strings.CutPrefix(word, "nodes=")
		switch {
		case word == "pause":
			c.Kind = pools.Infra
		case strings.HasPrefix(word, "finished="):
			c.FinishedAt, err = strconv.ParseInt(word[len("finished="):], 10, 64)
		case word == "waiting":
			c.Waiting = true
		case hinted:
			c.Nodes, err = cpuset.Parse(nodes)
		default:
			err = setResource(&c.Resources, word)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// setResource sets shares and quota as the kubelet does for cpu=N, or one value.
func setResource(r *pools.Resources, word string) error {
	key, value, _ := strings.Cut(word, "=")
	if key == "cpu" {
		milli, isMilli := strings.CutSuffix(value, "m")
		n, err := strconv.ParseInt(milli, 10, 64)
		if !isMilli {
			n *= 1000
		}
		*r = pools.Resources{Shares: workload.MilliCPUToShares(n), Quota: n * 100, Period: 100000}
		return err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch key {
	case "shares":
		r.Shares = uint64(n)
	case "quota":
		r.Quota = n
	case "period":
		r.Period = n
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return err
}

// parseAssignments reads lines like "UID/CONTAINER 4-7".
func parseAssignments(text string) ([]pools.Assignment, error) {
	var as []pools.Assignment
	for line := range strings.Lines(text) {
		key, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		uid, container, _ := strings.Cut(key, "/")
		cpus, err := cpuset.Parse(list)
		if err != nil {
			return nil, err
		}
		as = append(as, pools.Assignment{Key: pools.Key{PodUID: uid, Container: container}, CPUs: cpus})
	}
	return as, nil
}
