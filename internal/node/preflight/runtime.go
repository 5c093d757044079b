package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

type runtimeFacts struct {
	endpoint string
	name     string     // "containerd" or "cri-o"; empty if it does not answer
	driver   cri.Driver // empty if it does not report it

	pods []cri.Pod // pods of the runtime; empty after an error, which the daemon reports

	findErr, answerErr, driverErr error
}

func queryRuntime(ctx context.Context, host Host, endpoint string) runtimeFacts {
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
	defer func() { _ = client.Close() }()

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

func checkRuntime(e *evidence) {
	r := e.runtime
	key := e.file + ": containerRuntimeEndpoint"
	switch {
	case !e.config.HasRuntime():
		checkNoRuntime(e, key)
	case e.maybeNoRuntime():
	case r.findErr != nil:
		e.add(Error, key, fmt.Sprintf("is not set: %v", r.findErr), "")
	case r.answerErr != nil:
		e.add(Error, key,
			fmt.Sprintf("%s does not answer: %v", r.endpoint, r.answerErr),
			"start the runtime, or set the key to the socket that the kubelet uses")
	case r.name == dockerName:
		e.report(nodecheck.Docker(r.endpoint))
	case e.config.RuntimeEndpoint != "" && e.kubelet.endpoint != "" && socketOf(e.config.RuntimeEndpoint) != socketOf(e.kubelet.endpoint):
		e.add(Warning, key,
			fmt.Sprintf("is %s, but the kubelet (process %d) uses %s: cpupoold would not see the pods", e.config.RuntimeEndpoint, e.kubelet.process.PID, e.kubelet.endpoint),
			"remove the key, or correct it")
	case r.driverErr != nil:
		e.add(Error, r.endpoint,
			fmt.Sprintf("%s does not report its cgroup driver: %v", r.name, r.driverErr),
			"read the log of the runtime")
	}
}

const dockerName = "docker"

// socketOf returns the path of an endpoint. /var/run is a link to /run.
func socketOf(endpoint string) string {
	return strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix://"), "/var")
}

// checkNoRuntime reports a kubelet, and missing units, with a configuration without a runtime.
func checkNoRuntime(e *evidence, key string) {
	if e.kubelet.process.PID != 0 {
		e.add(Warning, key,
			fmt.Sprintf("is none, but a kubelet runs (process %d): its containers may run on the CPUs of units",
				e.kubelet.process.PID),
			"set the key to the socket that the kubelet uses, or remove it")
	}
	if len(e.config.Pools.Units) == 0 {
		e.add(Warning, key,
			"is none, and no units are configured: cpupoold places nothing",
			"add units, or remove the key")
	}
}

func checkKubeletDriver(e *evidence) {
	s := e.kubelet.cgroupDriver
	if s.value == "" || strings.EqualFold(s.value, string(e.runtime.driver)) {
		return
	}
	e.add(Warning, s.source,
		fmt.Sprintf("%s is %s, but %s uses %s: kubelets before 1.34 can prefer their own setting, and then create cgroups that the runtime does not use",
			s.key, s.value, e.runtime.name, e.runtime.driver),
		fmt.Sprintf("set %s to %s", s.key, e.runtime.driver))
}

func querySystemd(ctx context.Context, host Host) (version int, err error) {
	within, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return host.SystemdVersion(within)
}

func checkSystemd(e *evidence) {
	if e.systemdErr == nil {
		return
	}
	use := "the cgroup driver is systemd"
	if e.driver() != cri.Systemd {
		use = "units are configured"
	}
	e.add(Error, "systemd",
		fmt.Sprintf("%s, but the manager cannot be used: %s", use, strings.ReplaceAll(e.systemdErr.Error(), "\n", "; ")),
		"use systemd 244 or later and run as root; in a container mount the host's /run/systemd and /run/dbus")
}

// checkNRI reports a missing socket. Without it, containers start before cpupoold places them, and
// no ResourceClaim gets CPUs.
func checkNRI(e *evidence) {
	if e.config.Pools.Guaranteed.Kubelet {
		checkKubeletNRI(e)
		return
	}
	key, socket := e.file+": nriSocket", e.config.NRISocket
	hasClaims := !e.config.Pools.Guaranteed.Claims.CPUs.IsEmpty()
	found, remedy := "is none", "remove the key, unless this is intended"
	switch {
	case socket != "":
		found, remedy = e.socketFault(socket), nodecheck.EnableNRI+", or set the key to its socket"
	case hasClaims:
		remedy = "remove the key, or remove guaranteed.claims"
	}
	switch {
	case found == "":
	case hasClaims:
		e.add(Error, key, found+": no ResourceClaim gets CPUs of guaranteed.claims, because only NRI shows which containers use a claim", remedy)
	default:
		e.report(nodecheck.WithoutNRI(key, found, remedy))
	}
}

// socketFault states why a socket cannot be used; "" if it exists.
func (e *evidence) socketFault(socket string) string {
	switch _, err := fs.Stat(e.root, relative(socket)); {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return socket + " does not exist"
	default:
		return fmt.Sprintf("%s cannot be used (%s)", socket, cause(err))
	}
}
