package preflight

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
)

// checkNRI reports a missing socket. Without it, containers start before cpupoold places them.
func checkNRI(e *evidence) []Finding {
	if e.config.Pools.Guaranteed.Kubelet {
		return checkKubeletNRI(e)
	}
	key, socket := e.file+": nriSocket", e.config.NRISocket
	if socket == "" {
		return []Finding{nodecheck.WithoutNRI(key, "is none", "remove the key, unless this is intended")}
	}
	_, err := fs.Stat(e.root, relative(socket))
	if err == nil {
		return nil
	}
	found := fmt.Sprintf("%s cannot be used (%s)", socket, cause(err))
	if errors.Is(err, fs.ErrNotExist) {
		found = socket + " does not exist"
	}
	return []Finding{nodecheck.WithoutNRI(key, found, nodecheck.EnableNRI+", or set the key to its socket")}
}
