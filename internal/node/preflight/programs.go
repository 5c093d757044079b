package preflight

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
)

// cpuManager is a program that sets the CPUs of containers.
type cpuManager struct {
	program, does string
	plugin        bool // of NRI
}

// cpuManagers are those that are known by the names of their programs.
func cpuManagers() []cpuManager {
	return []cpuManager{
		{"nri-resource-policy-balloons", "places every container, over NRI", true},
		{"nri-resource-policy-topology-aware", "places every container, over NRI", true},
		{"dracpu", "places every container, over NRI", true},
		{"cpusetter", "is CPU-Pooler's: writes the cpuset of every container", false},
		{"cmk.py", "is CMK: sets the affinities of processes in containers", false},
		{"cmk", "is CMK: sets the affinities of processes in containers", false},
		{"katalyst-agent", "writes the cpusets of containers", false},
		{"koordlet", "writes the cpusets of BestEffort pods and of those that ask it for CPUs", false},
	}
}

// programOf is the name of a program by its command line: that of the script where an
// interpreter runs one, and without the index that a plugin has which the runtime starts
// (NRI, "NN-NAME").
func programOf(cmdline []byte) string {
	program, rest, _ := bytes.Cut(cmdline, []byte{0})
	base := path.Base(string(program))
	if strings.HasPrefix(base, "python") {
		for argument := range bytes.SplitSeq(rest, []byte{0}) {
			if !bytes.HasPrefix(argument, []byte("-")) { // an option of its own
				base = path.Base(string(argument))
				break
			}
		}
	}
	if len(base) > 3 && base[2] == '-' && digit(base[0]) && digit(base[1]) {
		base = base[3:]
	}
	return base
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// checkPlugins: NRI tells no plugin of another, so they are looked for among processes.
// The daemon sees those of the host.
func checkPlugins(e *evidence) []Finding {
	running := make(map[string]int)
	for _, name := range directories(e.root, "/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, err := readFile(e.root, path.Join("/proc", name, "cmdline"))
		if err != nil {
			continue // it has ended, or is not ours to see
		}
		if base := programOf(b); running[base] == 0 {
			running[base] = pid
		}
	}
	var findings []Finding
	for _, m := range cpuManagers() {
		pid := running[m.program]
		if pid == 0 {
			continue
		}
		f := Finding{
			Severity: Refuse,
			Subject:  fmt.Sprintf("%s (process %d)", m.program, pid),
			Found:    m.does + ": the runtime refuses containers whose cpuset two plugins set",
			Remedy:   besides("remove it from the node", "nriPlugins"),
		}
		switch {
		case !m.plugin:
			f.Severity, f.Found, f.Remedy = Warning, m.does+": the two undo each other's work", "remove it from the node, or switch that off in its configuration"
		case e.config.OtherManagers.NRIPlugins == config.StanceStandDown:
			f.Severity = Warning
			f.Found = m.does + ": cpupoold leaves those alone that it sees to have CPUs (otherManagers.nriPlugins)"
			f.Remedy = "give the plugin an index below 50, so that it is asked before cpupoold: else the runtime refuses containers whose cpuset both set"
		}
		findings = append(findings, f)
	}
	return findings
}
