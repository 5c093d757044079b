package nodecheck

import "github.com/cpupoold/cpupoold/internal/findings"

// EnableNRI is the start of the remedy for a runtime without NRI.
const EnableNRI = "enable NRI in the runtime (the default of containerd 2.0 and CRI-O 1.30 and later)"

// WithoutNRI returns the finding that the runtime does not ask cpupoold before a container
// starts. Found is the start of the sentence.
func WithoutNRI(subject, found, remedy string) findings.Finding {
	return findings.New(findings.Info, subject,
		found+": containers are placed when the runtime reports them, milliseconds after their first instruction",
		remedy)
}

// Docker returns the finding that the runtime is cri-dockerd.
func Docker(subject string) findings.Finding {
	return findings.New(findings.Error, subject,
		"is cri-dockerd, which reports no cgroups of containers: cpupoold cannot place them",
		"use containerd or CRI-O")
}
