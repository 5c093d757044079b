package preflight

import (
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
)

// checkMode reports the mode observe, because it explains why the daemon changes nothing.
func checkMode(e *evidence) []Finding {
	if e.config.Mode != config.ModeObserve {
		return nil
	}
	return []Finding{newFinding(Info, e.file+": mode",
		"is observe: run reports what it would write, and writes nothing",
		"set it to enforce and restart the daemon to enable writes")}
}

func isAboutOtherManagers(check string) bool {
	return strings.HasPrefix(check, "crio-") || strings.HasPrefix(check, "nri-plugin") || check == "kubelet-policy"
}
