package pools_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// The text forms of the test cases in testdata. Package pooltext has the form of the pools.

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
