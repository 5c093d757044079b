package preflight

import (
	"errors"
	"fmt"
	"io/fs"
)

// checkNRI: without the socket everything works, and containers begin before they are
// in their pool.
func checkNRI(e *evidence) []Finding {
	if e.config.Pools.Guaranteed.Kubelet {
		return kubeletNeedsNRI(e)
	}
	const without = "containers are placed when the runtime reports them, milliseconds after their first instruction"
	f := Finding{Severity: Info, Subject: e.file + ": nriSocket"}
	socket := e.config.NRISocket
	if socket == "" {
		f.Found, f.Remedy = "is none: "+without, "leave the key out, unless this is what you want"
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
	f.Remedy = "switch NRI on in the runtime (it is in containerd 2.0 and CRI-O 1.30 and later, unless their configuration says otherwise), or set the key to its socket"
	return []Finding{f}
}
