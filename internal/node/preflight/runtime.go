package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// runtimeFacts is what the container runtime says about itself.
type runtimeFacts struct {
	endpoint string
	name     string     // "containerd", "cri-o"; empty when it does not answer
	driver   cri.Driver // empty when it does not tell

	// pods are those that run; none where they cannot be listed, which recovery and the
	// daemon's first pass complain about.
	pods []cri.Pod

	findErr, answerErr, driverErr error
}

func askRuntime(ctx context.Context, host Host, endpoint string) runtimeFacts {
	r := runtimeFacts{endpoint: endpoint}
	if endpoint == "" {
		within, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if r.endpoint, r.findErr = host.FindRuntime(within); r.findErr != nil {
			return r
		}
	}
	var client Runtime
	if client, r.answerErr = host.DialRuntime(r.endpoint); r.answerErr != nil {
		return r
	}
	defer func() { _ = client.Close() }() // nothing is under way any more

	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if r.name, _, r.answerErr = client.Version(within); r.answerErr != nil {
		return r
	}
	r.driver, r.driverErr = client.CgroupDriver(within)
	if errors.Is(r.driverErr, cri.ErrNotSupported) {
		r.driverErr = nil
	}
	r.pods, _, _ = client.List(within)
	return r
}

func checkRuntime(e *evidence) []Finding {
	r := e.runtime
	key := e.file + ": containerRuntimeEndpoint"
	switch {
	case !e.config.HasRuntime():
		return withoutRuntime(e, key)
	case r.findErr != nil:
		return []Finding{{
			Severity: Error,
			Subject:  key,
			Found:    fmt.Sprintf("is not set, and the choice is not clear: %v", r.findErr),
		}}
	case r.answerErr != nil:
		return []Finding{{
			Severity: Error,
			Subject:  key,
			Found:    fmt.Sprintf("%s does not answer: %v", r.endpoint, r.answerErr),
			Remedy:   "start the runtime, or set the key to the socket that the kubelet uses",
		}}
	case r.driverErr != nil:
		return []Finding{{
			Severity: Error,
			Subject:  r.endpoint,
			Found:    fmt.Sprintf("%s does not tell its cgroup driver: %v", r.name, r.driverErr),
			Remedy:   "look into the runtime's log",
		}}
	}
	return nil
}

// withoutRuntime: containers that nobody places may run on any CPU.
func withoutRuntime(e *evidence, key string) []Finding {
	var findings []Finding
	if e.kubelet.pid != 0 {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  key,
			Found: fmt.Sprintf("is none, but a kubelet runs (process %d): its containers are not placed and run on the units' CPUs too",
				e.kubelet.pid),
			Remedy: "set the key to the socket that the kubelet uses, or leave it out",
		})
	}
	if len(e.config.Pools.Units) == 0 {
		findings = append(findings, Finding{
			Severity: Warning,
			Subject:  key,
			Found:    "is none, and no units are configured: there is nothing to place",
			Remedy:   "add units, or leave the key out",
		})
	}
	return findings
}

func checkKubeletDriver(e *evidence) []Finding {
	s := e.kubelet.cgroupDriver
	if s.value == "" || strings.EqualFold(s.value, string(e.runtime.driver)) {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  s.source,
		Found: fmt.Sprintf("%s is %s, but %s uses %s: kubelets before 1.34 can take their own word over the runtime's and then make cgroups that the runtime does not use",
			s.key, s.value, e.runtime.name, e.runtime.driver),
		Remedy: fmt.Sprintf("set %s to %s", s.key, e.runtime.driver),
	}}
}
