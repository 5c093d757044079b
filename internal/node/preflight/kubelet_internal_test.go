package preflight

import (
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/managers"
)

// TestUnreadableKubeletConfig checks that the remedy depends on the reason.
func TestUnreadableKubeletConfig(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.EACCES: "give cpupoold access", syscall.EIO: "repair the file"} {
		err := &fs.PathError{Op: "open", Path: "/home/kubernetes/kubelet-config.yaml", Err: errno}
		e := &evidence{kubelet: kubeletFacts{unreadable: []managers.FileError{{Name: err.Path, Err: err}}}}
		checkKubeletConfig(e)
		if got := e.found; len(got) != 1 || got[0].Severity != Warning || !strings.HasPrefix(got[0].Remedy, want) {
			t.Errorf("%v: %+v; want the remedy %q", errno, got, want)
		}
	}
}
