package daemon

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// containerWeight converts shares as the node's OCI runtime does: a container
// with the weight of the other formula is unequal to its neighbours by a factor
// of 2 to 3. No shares give no weight.
func containerWeight(f config.WeightFormula, shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case f == config.WeightLinear:
		return cgroup.WeightLinear(shares)
	default:
		return cgroup.WeightQuadratic(shares)
	}
}

// observeFormula tells the formula from a weight that the runtime itself has
// made of shares. Shares of 2 and less, and both ends of the scale, are the same
// in both.
func observeFormula(shares, weight uint64) (config.WeightFormula, bool) {
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

// formulaOfVersion tells the formula from what an OCI runtime prints for
// --version.
func formulaOfVersion(out string) (config.WeightFormula, error) {
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

func (l *loop) askFormula() {
	if l.runtime == nil {
		l.status.formulaAsked = true // there are no containers to weigh
		return
	}
	l.asks.submit("formula", func(ctx context.Context) event { return askFormula(ctx) })
}

// askFormula runs the OCI runtime for its version, and returns what it was. It
// serves until a container shows the formula; without an answer that is the
// current one.
func askFormula(ctx context.Context) formulaFound {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	for _, name := range []string{"runc", "crun"} {
		out, err := exec.CommandContext(ctx, name, "--version").Output()
		if err != nil {
			continue
		}
		if f, err := formulaOfVersion(string(out)); err == nil {
			version, _, _ := strings.Cut(string(out), "\n")
			return formulaFound{formula: f, version: version}
		}
	}
	return formulaFound{formula: config.WeightQuadratic, version: "unknown"}
}

// witness looks for a container whose weight the OCI runtime made of shares that
// are known, and that the daemon has never touched.
func witness(m *model, current map[cgroup.Path]cgroup.Current, l *ledger) (id string, f config.WeightFormula, ok bool) {
	for id, e := range m.containers {
		c, known := current[e.path]
		if !known || !c.Exists || l.touched(e.path, cgroup.FileWeight) {
			continue
		}
		if f, ok := observeFormula(e.container.Recorded.Shares, c.Weight); ok {
			return id, f, true
		}
	}
	return "", "", false
}

// guesses says that no container has shown the formula yet, and none is configured.
func (l *loop) guesses() bool {
	return l.settings.config.WeightFormula == config.WeightAuto && !l.status.formulaSeen
}

// observeWeights settles the question for the formula as soon as a container
// answers it, and says whether it has changed.
func (l *loop) observeWeights() (changed bool) {
	if !l.guesses() {
		return false
	}
	id, f, ok := witness(l.model, l.tree.current, l.ledger)
	if !ok {
		return false
	}
	changed = l.formula != f
	l.formula, l.status.formulaSeen = f, true
	l.log.Info("weight formula confirmed", "formula", f, "container", id)
	return changed
}
