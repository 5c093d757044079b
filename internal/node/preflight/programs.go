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
	plugin        bool // an NRI plugin
}

// cpuManagers returns the CPU managers that are recognized by the names of their programs.
func cpuManagers() []cpuManager {
	return []cpuManager{
		{"nri-resource-policy-balloons", "places every container, over NRI", true},
		{"nri-resource-policy-topology-aware", "places every container, over NRI", true},
		{"dracpu", "places every container, over NRI", true},
		{"cpusetter", "is CPU-Pooler's: writes the cpuset of every container", false},
		{"cmk.py", "is CMK: sets the affinities of processes in containers", false},
		{"cmk", "is CMK: sets the affinities of processes in containers", false},
		{"katalyst-agent", "writes the cpusets of containers", false},
		{"koordlet", "writes the cpusets of BestEffort pods and of pods that request CPUs from it", false},
	}
}

// programOf returns the name of the program of a command line. For a Python interpreter it is
// the name of the script. The index of a plugin that the runtime starts is removed (NRI,
// "NN-NAME").
func programOf(cmdline []byte) string {
	program, rest, _ := bytes.Cut(cmdline, []byte{0})
	base := path.Base(string(program))
	if strings.HasPrefix(base, "python") {
		for argument := range bytes.SplitSeq(rest, []byte{0}) {
			if !bytes.HasPrefix(argument, []byte("-")) { // an option of the interpreter
				base = path.Base(string(argument))
				break
			}
		}
	}
	if len(base) > 3 && base[2] == '-' && isDigit(base[0]) && isDigit(base[1]) {
		base = base[3:]
	}
	return base
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// checkPlugins searches processes for other CPU managers, because NRI does not report the
// other plugins. The daemon sees the processes of the host.
func checkPlugins(e *evidence) []Finding {
	running := make(map[string]int)
	for _, name := range directories(e.root, "/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, err := readFile(e.root, path.Join("/proc", name, "cmdline"))
		if err != nil {
			continue // the process has ended, or access is denied
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
			Remedy:   orStandDown("remove it from the node", "nriPlugins"),
		}
		switch {
		case !m.plugin:
			f.Severity, f.Found, f.Remedy = Warning, m.does+": it and cpupoold overwrite each other's CPUs", "remove it from the node, or disable this in its configuration"
		case e.config.OtherManagers.NRIPlugins == config.StanceStandDown:
			f.Severity = Warning
			f.Found = m.does + ": cpupoold skips containers for which the plugin has set CPUs (otherManagers.nriPlugins)"
			f.Remedy = "give the plugin an index below 50, so that the runtime calls it before cpupoold; otherwise the runtime refuses containers whose cpuset both set"
		}
		findings = append(findings, f)
	}
	return findings
}
