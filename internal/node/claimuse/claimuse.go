// Package claimuse decides which ResourceClaims for CPUs a container uses. It has no state.
//
// A CDI device in the kubelet's request is believed, because pods cannot write it. If its claim does
// not exist or belongs to another pod, the container must not be created. Some runtimes do not
// report CDI devices. Then a variable of the environment decides. Authors of pods and images can
// write it, so it counts only if a claim of the same pod has exactly its CPUs.
package claimuse

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Node are the prepared claims of a node.
type Node struct {
	Claims      []pools.Claim
	Assignments []pools.Assignment // with the CPUs of the claims
}

func (n *Node) of(uid string) (pools.Claim, bool) {
	i := slices.IndexFunc(n.Claims, func(c pools.Claim) bool { return c.UID == uid })
	if i < 0 {
		return pools.Claim{}, false
	}
	return n.Claims[i], true
}

// Find returns the UIDs of the claims that a container of a pod uses, and the reason why a variable in its environment
// is not believed. The reason is empty if all are, or if none exists. An error is the reason why the container must not
// be created.
func (n *Node) Find(refs cri.ClaimRefs, podUID string) (uids []string, unbelieved string, err error) {
	for _, uid := range refs.Devices {
		c, prepared := n.of(uid)
		switch {
		case !prepared:
			return nil, "", fmt.Errorf("claim %q of CPUs is not prepared on this node; the kubelet must prepare it through the driver before it creates the container: check that cpupool-dra runs on this node", uid)
		case c.PodUID != podUID:
			return nil, "", fmt.Errorf("claim %s/%s (%s) is prepared for pod %s, and the container is in pod %s; CPUs of a claim are for one pod: create a claim for each pod, for example from a ResourceClaimTemplate",
				c.Namespace, c.Name, uid, c.PodUID, podUID)
		}
		uids = append(uids, uid)
	}
	for _, uid := range slices.Sorted(maps.Keys(refs.Variables)) {
		if slices.Contains(refs.Devices, uid) {
			continue // the variable comes with the device
		}
		why := n.disbelief(refs, podUID, uid)
		if why == "" {
			uids = append(uids, uid)
		} else if unbelieved == "" {
			unbelieved = ignored(uid, refs.Variables[uid], why)
		}
	}
	return uids, unbelieved, nil
}

// disbelief returns the reason why the variable for a claim is not believed, or "".
func (n *Node) disbelief(refs cri.ClaimRefs, podUID, uid string) string {
	c, prepared := n.of(uid)
	if refs.HasDevices {
		return "the runtime reports the CDI devices of the container, and none is of this claim"
	}
	if !prepared {
		return "no such claim is prepared on this node"
	}
	if c.PodUID != podUID {
		return "the claim belongs to another pod"
	}
	cpus, err := cpuset.Parse(refs.Variables[uid])
	if own := n.cpusOf(uid); err != nil || !cpus.Equal(own) || own.IsEmpty() {
		return "the CPUs of the claim are " + own.String()
	}
	return ""
}

// cpusOf returns the CPUs of a claim, online and offline.
func (n *Node) cpusOf(uid string) (all cpuset.Set) {
	for _, a := range n.Assignments {
		if a.Claim == uid {
			all = all.Union(a.CPUs, a.Away)
		}
	}
	return all
}

func ignored(uid, value, why string) string {
	const longest = 120 // characters of a text that the author of the pod chooses
	return fmt.Sprintf("the container's environment has %.*q, which cpupoold does not believe: %s; the variable has no effect. "+
		"Remove it from pod and image. For CPUs of a ResourceClaim, write the claim in resources.claims of the container",
		longest, cri.ClaimVariable+uid+"="+value, why)
}
