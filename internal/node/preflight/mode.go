package preflight

import (
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
)

// checkMode: who looks for why nothing happens is told.
func checkMode(e *evidence) []Finding {
	if e.config.Mode != config.ModeObserve {
		return nil
	}
	return []Finding{{
		Severity: Info,
		Subject:  e.file + ": mode",
		Found:    "is observe: run reports what it would write, and writes nothing",
		Remedy:   "set it to enforce, and restart the daemon, to have it written",
	}}
}

// aboutOthers says that a check is about another manager of CPUs.
func aboutOthers(check string) bool {
	return strings.HasPrefix(check, "crio-") || strings.HasPrefix(check, "nri-plugin") || check == "kubelet-policy"
}
