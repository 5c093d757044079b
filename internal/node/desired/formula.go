package desired

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// ContainerWeight converts shares as the node's OCI runtime does: a container
// with the weight of the other formula is unequal to its neighbours by a factor
// of 2 to 3. No shares give no weight.
func ContainerWeight(f config.WeightFormula, shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case f == config.WeightLinear:
		return cgroup.WeightLinear(shares)
	default:
		return cgroup.WeightQuadratic(shares)
	}
}

// ObserveFormula tells the formula from a weight that the runtime itself has
// made of shares. Shares of 2 and less, and both ends of the scale, are the same
// in both.
func ObserveFormula(shares, weight uint64) (config.WeightFormula, bool) {
	linear, quadratic := cgroup.WeightLinear(shares), cgroup.WeightQuadratic(shares)
	switch {
	case linear == quadratic:
		return "", false
	case weight == linear:
		return config.WeightLinear, true
	case weight == quadratic:
		return config.WeightQuadratic, true
	}
	return "", false
}

// runtimeVersion matches "runc version 1.3.2+ds1" and "crun version 1.21".
var runtimeVersion = regexp.MustCompile(`^(runc|crun) version (\d+)\.(\d+)(?:\.(\d+))?`)

// FormulaOfVersion tells the formula from what an OCI runtime prints for
// --version.
func FormulaOfVersion(out string) (config.WeightFormula, error) {
	line, _, _ := strings.Cut(out, "\n")
	m := runtimeVersion.FindStringSubmatch(line)
	if m == nil {
		return "", fmt.Errorf("read OCI runtime version: %.80q is neither runc's nor crun's", line)
	}
	var v [3]int
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+2]) // digits or nothing; nothing is 0
	}
	newest := [3]int{1, 3, 2}
	if m[1] == "crun" {
		newest = [3]int{1, 23, 0}
	}
	for i := range v {
		if v[i] != newest[i] {
			if v[i] > newest[i] {
				return config.WeightQuadratic, nil
			}
			return config.WeightLinear, nil
		}
	}
	return config.WeightQuadratic, nil
}

// versionTimeout is the limit for the OCI runtime to print its version: the first
// pass waits for the answer.
const versionTimeout = 5 * time.Second

// AskFormula runs the OCI runtime for its version, and returns what it was. It
// serves until a container shows the formula; without an answer that is the
// current one.
func AskFormula(ctx context.Context) FormulaFound {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	for _, name := range []string{"runc", "crun"} {
		out, err := exec.CommandContext(ctx, name, "--version").Output()
		if err != nil {
			continue
		}
		if f, err := FormulaOfVersion(string(out)); err == nil {
			version, _, _ := strings.Cut(string(out), "\n")
			return FormulaFound{Formula: f, Version: version}
		}
	}
	return FormulaFound{Formula: config.WeightQuadratic, Version: "unknown"}
}

// FormulaWitness looks for a container whose weight the OCI runtime made of shares that
// are known, and that the daemon has never touched.
func FormulaWitness(m *inventory.Inventory, current func(cgroup.Path) cgroup.Current, l *undo.Journal) (id string, f config.WeightFormula, ok bool) {
	for e := range m.Containers() {
		c := current(e.Path)
		if !c.Exists || l.HasOriginal(e.Path, cgroup.FileWeight) {
			continue
		}
		if f, ok := ObserveFormula(e.Container.Recorded.Shares, c.Weight); ok {
			return e.Container.ID, f, true
		}
	}
	return "", "", false
}
