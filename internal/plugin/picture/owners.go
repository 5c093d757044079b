package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Owner is a container, pod or unit with exclusive CPUs.
type Owner struct {
	// Number is shown on its CPUs and in the legend, from 1.
	Number int
	Name   string // namespace/pod/container, namespace/pod, or a unit
	CPUs   cpuset.Set
}

// Owners returns the owners of CPUs, ordered by their first CPU.
func Owners(cpus []inspect.CPU) []Owner {
	of := make(map[string]cpuset.Set)
	for _, c := range cpus {
		if c.Owner != "" {
			of[c.Owner] = of[c.Owner].Union(cpuset.Of(c.ID))
		}
	}
	all := make([]Owner, 0, len(of))
	for name, set := range of {
		all = append(all, Owner{Name: name, CPUs: set})
	}
	slices.SortFunc(all, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.CPUs.First(), b.CPUs.First()), strings.Compare(a.Name, b.Name))
	})
	for i := range all {
		all[i].Number = i + 1
	}
	return all
}

// colours is the number of owner colours in style.css. They repeat from the thirteenth
// owner on, so that the number identifies the owner.
const colours = 12

// colourOf returns the number of an owner's colour.
func colourOf(number int) int { return (number-1)%colours + 1 }

// Words returns a description of a CPU: its use, owner and place.
func Words(c *inspect.CPU) string {
	if !c.Online {
		return fmt.Sprintf("CPU %d: offline", c.ID)
	}
	where := fmt.Sprintf("core %d, L3 %d, die %d, package %d, NUMA node %d", c.Core, c.L3, c.Die, c.Package, c.Node)
	return fmt.Sprintf("CPU %d: %s (%s)", c.ID, use(c), where)
}

func use(c *inspect.CPU) string {
	pool := c.Pool
	if c.Type != "" && c.Type != pool {
		pool = c.Pool + " " + c.Type
	}
	switch c.Use {
	case "pool":
		return pool + " pool"
	case "owned":
		return pool + ", owned by " + c.Owner
	case "reserved":
		return pool + ", reserved for " + c.Owner
	case "none":
		return "in no pool"
	case "":
		return "unknown"
	default:
		return pool + ", " + c.Use
	}
}
