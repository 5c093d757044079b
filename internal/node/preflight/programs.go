package preflight

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
)

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
	var all []Finding
	standDown := e.config.OtherManagers.NRIPlugins == config.StanceStandDown
	for _, m := range othermanagers.Managers() {
		if pid := running[m.Program]; pid != 0 {
			all = append(all, m.Finding(fmt.Sprintf("%s (process %d)", m.Program, pid), standDown))
		}
	}
	return all
}
