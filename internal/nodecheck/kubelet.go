package nodecheck

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/findings"
)

// EnableNRI is the start of the remedy for a runtime without NRI.
const EnableNRI = "enable NRI in the runtime (the default of containerd 2.0 and CRI-O 1.30 and later)"

// WithoutNRI returns the finding that containers start before cpupoold places them.
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

// Static is the policy with which the kubelet writes the cpuset of every container.
const Static = "static"

// KubeletStatic returns the finding that the kubelet allocates exclusive CPUs, as cpupoold
// does. The key holds the policy, and stateFile is the state file of the CPU manager.
func KubeletStatic(subject, key, stateFile string) findings.Finding {
	return findings.New(findings.Refuse, subject,
		fmt.Sprintf("%s is %s: the kubelet would overwrite the CPUs of every container that cpupoold places", key, Static),
		fmt.Sprintf("drain the node, stop the kubelet, set cpuManagerPolicy: none, remove %s, start the kubelet; "+
			"or leave exclusive CPUs to the kubelet: write guaranteed: {exclusive: kubelet}", stateFile))
}

// StricterTopology returns the finding that the kubelet refuses more than the key of cpupoold.
func StricterTopology(subject, ours, theirs string) findings.Finding {
	return findings.New(findings.Warning, subject,
		fmt.Sprintf("is %s, but the kubelet's topologyManagerPolicy is %s: it refuses pods whose devices are not aligned, but their CPUs may be on other NUMA nodes",
			ours, theirs),
		"set topology-policy: "+theirs)
}
