package guestnode

import "strings"

// TriesAgain says whether a kubelet would get past an error of CreateContainer or StartContainer by trying again: the daemon has not decided in
// time, or CPUs are still being left, which takes longer than the runtime waits on a machine that is not run for seconds. Every such refusal
// of the daemon's says that the kubelet tries again.
func TriesAgain(err error) bool {
	return err != nil && strings.Contains(err.Error(), "cpupoold") && strings.Contains(err.Error(), "the kubelet tries again")
}
