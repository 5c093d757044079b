package desired

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeOtherNRI is the code of the problem that another runtime listens on the NRI socket.
const codeOtherNRI pools.Code = "NRIOtherRuntime"

// codeClaimsNRI is the code of the problem that claims are prepared and NRI is not connected.
const codeClaimsNRI pools.Code = "ClaimsWithoutNRI"

// ClaimsWithoutNRI returns a problem if claims are prepared, and the runtime does not report which
// containers use them. err is the reason why NRI is not connected.
func (s *Settings) ClaimsWithoutNRI(claims int, err error) []pools.Problem {
	if claims == 0 {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeClaimsNRI, Text: fmt.Sprintf(
		"%d ResourceClaims have CPUs, and NRI is not connected%s: containers that are created now run in the shared pool instead of on the CPUs of their claims; "+
			"enable NRI in the container runtime, and check nriSocket", claims, because(err))}}}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// NRIProblems returns a problem if err is that another runtime listens on the NRI socket.
func (s *Settings) NRIProblems(err error) []pools.Problem {
	if !errors.Is(err, nri.ErrOtherRuntime) {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeOtherNRI, Text: fmt.Sprintf(
		"another container runtime listens on the NRI socket %s: containers begin on all CPUs, and are placed when their runtime reports them; "+
			"give the other runtime another socket (containerd: socket_path of io.containerd.nri.v1.nri; CRI-O: nri_listen), restart it and then the runtime of the pods",
		s.Config.NRISocket)}}}
}
