package preflight

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
)

// checkPreparedClaims reports ResourceClaims if a static kubelet would allocate their CPUs to other containers, too.
func checkPreparedClaims(e *evidence) []Finding {
	if !e.config.Pools.Guaranteed.Kubelet || e.host.Claims == nil {
		return nil
	}
	names := e.host.Claims(&e.config)
	if len(names) == 0 {
		return nil
	}
	severity := Refuse
	if e.config.Mode == config.ModeObserve {
		severity = Warning
	}
	const most = 10
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return []Finding{newFinding(severity, e.file+": guaranteed.exclusive",
		fmt.Sprintf("is kubelet, and ResourceClaims have CPUs (%s): the kubelet would allocate these CPUs to other containers, too", list),
		"delete the pods of the claims while the daemon runs with guaranteed.claims; or forget the claims with cpupoold restore --force")}
}
