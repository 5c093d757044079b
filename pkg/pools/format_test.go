package pools_test

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// format writes a plan the way the test cases show it.
func format(p pools.Plan) string {
	var b strings.Builder
	states := []string{"created", "running", "exited"}
	for _, u := range p.Units {
		fmt.Fprintf(&b, "unit %s:", u.Name)
		writePlace(&b, u.Pool, u.Type, u.CPUs, u.Exclusive, u.Mems)
		writeRefusal(&b, u.Refused)
		writeReason(&b, u.Reason)
	}
	for _, pod := range p.Pods {
		fmt.Fprintf(&b, "pod %s %s/%s", pod.UID, pod.Namespace, pod.Name)
		if pod.Shares != 0 {
			fmt.Fprintf(&b, " shares=%d", pod.Shares)
		}
		if pod.Unlimited {
			b.WriteString(" unlimited")
		}
		writeQuota(&b, pod.Quota, pod.Period)
		writeReason(&b, pod.Reason)
		for _, c := range pod.Containers {
			fmt.Fprintf(&b, "  %s %s %s:", c.Name, c.ID, states[c.State])
			writePlace(&b, c.Pool, c.Type, c.CPUs, c.Exclusive, c.Mems)
			if !c.Mixed.IsEmpty() {
				fmt.Fprintf(&b, " mixed=%s", c.Mixed)
			}
			if c.Unread {
				b.WriteString(" unread")
			}
			if c.Shares != 0 {
				fmt.Fprintf(&b, " shares=%d", c.Shares)
			}
			if c.Limit != 0 {
				fmt.Fprintf(&b, " limit=%d", c.Limit)
			}
			writeQuota(&b, c.Quota, c.Period)
			writeRefusal(&b, c.Refused)
			writeReason(&b, c.Reason)
		}
	}
	for _, a := range p.Assignments {
		fmt.Fprintf(&b, "hold %s/%s %s", a.PodUID, a.Container, a.CPUs)
		if !a.Away.IsEmpty() {
			fmt.Fprintf(&b, " away %s", a.Away)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "free %s\n", p.Free)
	if p.Free.Overlaps(p.Shared) {
		fmt.Fprintf(&b, "shared %s\n", p.Shared)
	}
	if !p.Idle.IsEmpty() {
		fmt.Fprintf(&b, "idle %s\n", p.Idle)
	}
	for _, pr := range p.Problems {
		if pr.Unit != "" {
			fmt.Fprintf(&b, "problem unit %s", pr.Unit)
		} else {
			fmt.Fprintf(&b, "problem %s %s %s", pr.PodUID, pr.Pod, pr.Container)
		}
		writeReason(&b, pr.Reason)
	}
	return b.String()
}

func writePlace(b *strings.Builder, pool pools.Pool, typ string, cpus cpuset.Set, exclusive bool, mems cpuset.Set) {
	fmt.Fprintf(b, " %s", pool)
	if typ != "" && typ != string(pools.Management) {
		fmt.Fprintf(b, "/%s", typ)
	}
	fmt.Fprintf(b, " %s", cpus)
	if exclusive {
		b.WriteString(" exclusive")
	}
	if !mems.IsEmpty() {
		fmt.Fprintf(b, " mems=%s", mems)
	}
}

func writeQuota(b *strings.Builder, quota, period int64) {
	if quota != 0 {
		fmt.Fprintf(b, " quota=%d/%d", quota, period)
	}
}

func writeRefusal(b *strings.Builder, r *allocate.Refusal) {
	if r != nil {
		fmt.Fprintf(b, " refused=%s:%d/%d", r.Code, r.Asked, r.Free)
	}
}

func writeReason(b *strings.Builder, r pools.Reason) {
	if r != (pools.Reason{}) {
		fmt.Fprintf(b, " (%s: %s)", r.Code, r.Text)
	}
	b.WriteString("\n")
}
