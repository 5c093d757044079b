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

// parseSpec reads lines like "management 0-1 ns1,ns2", "shared 2-3" or "rest",
// "guaranteed 4-7" or "none".
func parseSpec(text string) (pools.Spec, error) {
	s := pools.Spec{StrictReservation: true}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return s, fmt.Errorf("%q: want a name and CPUs", line)
		}
		cpus, err := cpuset.Parse(f[1])
		switch {
		case f[0] == "shared" && f[1] == "rest" || f[0] == "guaranteed" && f[1] == "none":
			continue
		case f[1] == "all":
			err = nil
		}
		if err != nil {
			return s, err
		}
		switch f[0] {
		case "shared":
			s.Shared = &cpus
		case "guaranteed":
			s.Guaranteed.CPUs = cpus
		default:
			p := pools.PartitionSpec{Type: f[0], CPUs: cpus, All: f[1] == "all"}
			if len(f) > 2 {
				p.Namespaces = strings.Split(f[2], ",")
			}
			s.Partitions = append(s.Partitions, p)
		}
	}
	return s, nil
}

// parsePods reads
//
//	pod UID NAMESPACE/NAME QOS [cpu=4] [gone] [settled]
//	annotation KEY VALUE
//	NAME ID STATE CREATED [cpu=1500m] [shares=N] [quota=N] [period=N] [pause]
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
		if word == "pause" {
			c.Kind = pools.Infra
		} else if err := setResource(&c.Resources, word); err != nil {
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

// format writes a plan the way the test cases show it.
func format(p pools.Plan) string {
	var b strings.Builder
	states := []string{"created", "running", "exited"}
	for _, pod := range p.Pods {
		fmt.Fprintf(&b, "pod %s %s/%s", pod.UID, pod.Namespace, pod.Name)
		if pod.Shares != 0 {
			fmt.Fprintf(&b, " shares=%d", pod.Shares)
		}
		if pod.Unlimited {
			b.WriteString(" unlimited")
		}
		writeReason(&b, pod.Reason)
		for _, c := range pod.Containers {
			fmt.Fprintf(&b, "  %s %s %s: %s", c.Name, c.ID, states[c.State], c.Pool)
			if c.Type != "" && c.Type != string(pools.Management) {
				fmt.Fprintf(&b, "/%s", c.Type)
			}
			fmt.Fprintf(&b, " %s", c.CPUs)
			if c.Exclusive {
				b.WriteString(" exclusive")
			}
			if c.Shares != 0 {
				fmt.Fprintf(&b, " shares=%d", c.Shares)
			}
			writeReason(&b, c.Reason)
		}
	}
	for _, a := range p.Assignments {
		fmt.Fprintf(&b, "hold %s/%s %s\n", a.Key.PodUID, a.Key.Container, a.CPUs)
	}
	fmt.Fprintf(&b, "free %s\n", p.Free)
	for _, pr := range p.Problems {
		fmt.Fprintf(&b, "problem %s %s %s", pr.PodUID, pr.Pod, pr.Container)
		writeReason(&b, pr.Reason)
	}
	return b.String()
}

func writeReason(b *strings.Builder, r pools.Reason) {
	if r != (pools.Reason{}) {
		fmt.Fprintf(b, " (%s: %s)", r.Code, r.Text)
	}
	b.WriteString("\n")
}
