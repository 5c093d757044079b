package demo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// row is a container or unit, with cpupoold's plan and the kernel's values.
type row struct {
	pools.Placement // of a unit its name is the ID

	pod    string // namespace/name; of a unit its name
	uid    string // of the pod, as the runtime knows it; of a unit ""
	kernel view
}

// compare joins a plan with the kernel's values of its running containers and its units, by pool and name.
func compare(plan pools.Plan, kernel map[string]view) []row {
	var rows []row
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.State == pools.Running {
				rows = append(rows, row{Placement: c, pod: pod.Namespace + "/" + pod.Name, uid: pod.UID, kernel: kernel[c.ID]})
			}
		}
	}
	for _, u := range plan.Units {
		placement := pools.Placement{ID: u.Name, Name: "(unit)", Pool: u.Pool, CPUs: u.CPUs, Exclusive: u.Exclusive, Reason: u.Reason}
		rows = append(rows, row{Placement: placement, pod: u.Name, kernel: kernel[u.Name]})
	}
	order := []pools.Pool{pools.Management, pools.Guaranteed, pools.Shared}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Pool), slices.Index(order, b.Pool)),
			cmp.Compare(a.pod, b.pod),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return rows
}

// differs lists the differences to the kernel.
func (r row) differs() []string {
	if r.kernel.Path == "" {
		return []string{"has no cgroup"}
	}
	var d []string
	if !r.kernel.Effective.Equal(r.CPUs) {
		d = append(d, fmt.Sprintf("cpuset.cpus.effective is %s", r.kernel.Effective))
	}
	if got := r.allowed(); got != r.CPUs.String() {
		d = append(d, fmt.Sprintf("its processes may run on %s", got))
	}
	// The node's runc is later than 1.3.1 and converts shares like this.
	if want := cgroup.WeightQuadratic(r.Shares); r.Shares > 0 && r.kernel.Weight != want {
		d = append(d, fmt.Sprintf("cpu.weight is %d, not %d", r.kernel.Weight, want))
	}
	if r.Exclusive && r.kernel.Quota != -1 {
		d = append(d, fmt.Sprintf("cpu.max has a quota of %d us", r.kernel.Quota))
	}
	return d
}

// allowed lists the CPUs of the processes: one list if they agree.
func (r row) allowed() string {
	if len(r.kernel.allowed) == 0 {
		return "nothing"
	}
	return strings.Join(r.kernel.allowed, " and ")
}

// disagreement returns an error that names all containers whose kernel values differ from the plan, and all overlaps.
func disagreement(rows []row) error {
	var errs []error
	var occupants []invariants.Occupant
	for _, r := range rows {
		if d := r.differs(); len(d) > 0 {
			errs = append(errs, fmt.Errorf("%s/%s belongs on %s: %s", r.pod, r.Name, r.CPUs, strings.Join(d, ", ")))
		}
		occupants = append(occupants, invariants.Occupant{Name: string(r.kernel.Path), CPUs: r.kernel.Effective, Exclusive: r.Exclusive})
	}
	return errors.Join(append(errs, invariants.CheckOccupants(occupants)...)...)
}

// verdict sums it up in one line.
func verdict(rows []row) string {
	var apps, pauses, units int
	for _, r := range rows {
		switch {
		case r.uid == "":
			units++
		case r.Kind == pools.Infra:
			pauses++
		default:
			apps++
		}
	}
	if disagreement(rows) != nil {
		return "cpupoold and the kernel do NOT agree."
	}
	return fmt.Sprintf("cpupoold and the kernel agree about all %d containers, %d pause containers and %d unit; exclusive CPUs overlap with no other CPUs.",
		apps, pauses, units)
}
