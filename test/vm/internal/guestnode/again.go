package guestnode

import "strings"

// TriesAgain reports whether err is a refusal of CreateContainer or StartContainer that the kubelet retries with success. The daemon did not decide
// in time, or other processes still leave the CPUs. Each such refusal of the daemon contains these words.
func TriesAgain(err error) bool {
	return err != nil && strings.Contains(err.Error(), "cpupoold") && strings.Contains(err.Error(), "the kubelet retries")
}
