package desired

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeOtherNRI is the code of the problem that another runtime listens on the NRI socket.
const codeOtherNRI pools.Code = "NRIOtherRuntime"

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
