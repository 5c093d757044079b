package preflight

import (
	"errors"
	"fmt"
	"io/fs"
)

// checkNRI reports a missing socket. Without it, containers start before cpupoold places them.
func checkNRI(e *evidence) []Finding {
	if e.config.Pools.Guaranteed.Kubelet {
		return checkKubeletNRI(e)
	}
	const without = "containers are placed when the runtime reports them, milliseconds after their first instruction"
	f := Finding{Severity: Info, Subject: e.file + ": nriSocket"}
	socket := e.config.NRISocket
	if socket == "" {
		f.Found, f.Remedy = "is none: "+without, "remove the key, unless this is intended"
		return []Finding{f}
	}
	_, err := fs.Stat(e.root, relative(socket))
	if err == nil {
		return nil
	}
	f.Found = fmt.Sprintf("%s cannot be used (%s): %s", socket, cause(err), without)
	if errors.Is(err, fs.ErrNotExist) {
		f.Found = fmt.Sprintf("%s does not exist: %s", socket, without)
	}
	f.Remedy = "enable NRI in the runtime (the default of containerd 2.0 and CRI-O 1.30 and later), or set the key to its socket"
	return []Finding{f}
}
