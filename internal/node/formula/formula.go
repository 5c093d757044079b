// Package formula finds the formula by which the node's OCI runtime converts CPU shares
// to a weight. Fetch runs in a worker.
package formula

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Formula is the formula by which the node's OCI runtime converts CPU shares to a weight. A
// container with the weight of the other formula would differ from its neighbours by a factor
// of 2 to 3. It is configured, or else a container shows it; until then it is guessed from
// the runtime's version.
type Formula struct {
	configured config.WeightFormula
	value      config.WeightFormula
	answered   bool // the version of the OCI runtime is known, or cannot be known
	confirmed  bool // a container has shown the formula
}

// New returns the formula of a configuration.
func New(configured config.WeightFormula) Formula {
	return Formula{configured: configured, value: configured}
}

// Configure replaces the formula. It reports whether to ask the OCI runtime for its version.
func (f *Formula) Configure(configured config.WeightFormula) (ask bool) {
	if f.configured == configured {
		return false
	}
	if f.configured = configured; configured == config.WeightAuto {
		f.confirmed = false
		return true
	}
	f.value = configured
	return false
}

// Value returns the formula. [config.WeightAuto] is unknown, and counts as the current one.
func (f *Formula) Value() config.WeightFormula { return f.value }

// Weight converts CPU shares to a weight. It returns 0 for 0 shares.
func (f *Formula) Weight(shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case f.value == config.WeightLinear:
		return cgroup.WeightLinear(shares)
	default:
		return cgroup.WeightQuadratic(shares)
	}
}

// IsGuess reports whether the formula is neither configured nor shown by a container.
func (f *Formula) IsGuess() bool { return f.configured == config.WeightAuto && !f.confirmed }

// IsAnswered reports whether the question for the runtime's version is answered.
func (f *Formula) IsAnswered() bool { return f.answered }

// NoteNoRuntime records that the node has no runtime to ask.
func (f *Formula) NoteNoRuntime() { f.answered = true }

// Take records the answer to Fetch. It reports whether the answer counts.
func (f *Formula) Take(a Answer) bool {
	f.answered = true
	if !f.IsGuess() {
		return false
	}
	f.value = a.Formula
	return true
}

// Observe looks for a container that shows the formula: the OCI runtime has computed its
// weight, from known shares, and the daemon has never written it. It returns the container
// that ends a guess.
func (f *Formula) Observe(m *inventory.Objects, current func(cgroup.Path) cgroup.Current, written *undo.Originals) (container string, ok bool) {
	if !f.IsGuess() {
		return "", false
	}
	for e := range m.Containers() {
		c := current(e.Path)
		if !c.Exists || written.Has(e.Path, cgroup.FileWeight) {
			continue
		}
		if shown, ok := formulaOfWeight(e.Container.Recorded.Shares, c.Weight); ok {
			f.value, f.confirmed = shown, true
			return e.Container.ID, true
		}
	}
	return "", false
}

// formulaOfWeight returns no formula if both convert the shares to the same weight.
func formulaOfWeight(shares, weight uint64) (config.WeightFormula, bool) {
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

// Answer is the formula of the installed OCI runtime.
type Answer struct {
	Formula config.WeightFormula
	Version string // as the runtime prints it, or "unknown"
}

// versionTimeout limits the version query of an OCI runtime: the first pass waits for it.
const versionTimeout = 5 * time.Second

// Fetch runs the OCI runtimes for their version, and returns the formula of the first
// one that answers. Without an answer it returns the current formula.
func Fetch(ctx context.Context) Answer {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	for _, name := range []string{"runc", "crun"} {
		out, err := exec.CommandContext(ctx, name, "--version").Output()
		if err != nil {
			continue
		}
		if f, err := formulaOfVersion(string(out)); err == nil {
			version, _, _ := strings.Cut(string(out), "\n")
			return Answer{Formula: f, Version: version}
		}
	}
	return Answer{Formula: config.WeightQuadratic, Version: "unknown"}
}

// runtimeVersion matches "runc version 1.3.2+ds1" and "crun version 1.21".
var runtimeVersion = regexp.MustCompile(`^(runc|crun) version (\d+\.\d+(?:\.\d+)?)`)

// formulaOfVersion returns the formula of an OCI runtime by its output for --version. The
// quadratic formula exists since runc 1.3.2 and crun 1.23.
func formulaOfVersion(out string) (config.WeightFormula, error) {
	line, _, _ := strings.Cut(out, "\n")
	m := runtimeVersion.FindStringSubmatch(line)
	if m == nil {
		return "", fmt.Errorf("read OCI runtime version: %.80q is neither runc's nor crun's", line)
	}
	first := map[string]string{"runc": "v1.3.2", "crun": "v1.23"}[m[1]]
	if semver.Compare("v"+m[2], first) < 0 {
		return config.WeightLinear, nil
	}
	return config.WeightQuadratic, nil
}
