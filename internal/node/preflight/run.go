package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/findings"
)

const callTimeout = 5 * time.Second

type check struct {
	name string
	// needs are preconditions. A check runs only if all are met: otherwise another check
	// reports the reason, or no problem exists.
	needs []need
	run   func(*evidence)
}

func checks() []check {
	return []check{
		{"configuration", nil, checkConfiguration},
		{"mode", []need{configured}, checkMode},
		{"cgroup-v2", nil, checkUnified},
		{"controllers", []need{cgroupV2}, checkControllers},
		{"controllers-kubepods", []need{cgroupV2, kubepods}, checkKubepodsControllers},
		{"runtime", nil, checkRuntime},
		{"cgroup-driver", []need{runtimeDriver, kubepods}, checkDriver},
		{"cgroup-driver-kubelet", []need{runtimeDriver}, checkKubeletDriver},
		{"systemd", []need{systemdNeeded}, checkSystemd},
		{"kubelet-policy", nil, checkKubeletPolicy},
		{"kubelet-state", nil, checkKubeletState},
		{"kubelet-config", nil, checkKubeletConfig},
		{"kubelet-reserved", []need{kubeletConfigured}, checkReserved},
		{"kubelet-topology", []need{kubeletConfigured, runtimeUsed, exclusiveCPUs}, checkKubeletTopology},
		{"kubelet-memory", []need{kubeletConfigured, runtimeUsed, exclusiveCPUs}, checkKubeletMemory},
		{"system-partition", []need{cgroupV2}, checkSystemPartition},
		{"pod-resources", []need{kubeletConfigured, runtimeUsed, exclusiveCPUs}, checkPodResources},
		{"claims-prepared", []need{configured}, checkPreparedClaims},
		{"nri", []need{runtimeUsed}, checkNRI},
		{"nri-plugins", []need{runtimeUsed}, checkPlugins},
		{"other-annotations", []need{runtimeUsed}, checkAnnotations},
		{"tuned", nil, checkTuned},
		{"crio-workloads", []need{crioInUse}, checkWorkloads},
		{"crio-high-performance", []need{crioInUse}, checkHighPerformance},
		{"crio-infra-cpuset", []need{crioInUse}, checkInfraCPUSet},
		{"crio-config", []need{crioInUse}, checkCRIOConfig},
		{"kernel-affinity", []need{kernelVersion}, func(e *evidence) { e.report(e.kernel.Affinity()...) }},
		{"kernel-reload", []need{kernelVersion, systemdAnswers}, func(e *evidence) {
			e.report(e.kernel.Reload(fmt.Sprintf("systemd %d", e.systemd))...)
		}},
		{"kernel-partitions", []need{cgroupV2, kubepods}, checkPartitions},
		{"isolation", []need{kernelVersion, configured, ownedCPUs}, checkIsolation},
		{"kernel-psi", nil, checkPSI},
		{"live-audit", []need{liveAuditOn}, checkLiveAudit},
		{"topology", nil, checkTopology},
		{"usable-cpus", []need{cgroupV2, cpuTopology}, checkUsable},
		// No refusals: after a reboot the daemon adapts to another machine.
		{"pools", []need{configured, cpuTopology}, func(e *evidence) { e.problems(e.poolsErr, Error) }},
		{"pools-offline", []need{resolvedPools}, checkOffline},
		{"pools-split-core", []need{resolvedPools}, checkSplitCores},
		{"pools-management", []need{resolvedPools}, checkManagementSize},
		{"pools-cpu0", []need{resolvedPools}, checkCPU0},
		{"pools-isolated", []need{resolvedPools}, checkIsolated},
		{"depletion-floor", []need{resolvedPools}, checkDepletionFloor},
		{"option-isolated", []need{exclusiveCPUs}, checkIsolatedOption},
		{"option-core-type", []need{exclusiveCPUs}, checkCoreType},
		{"units", nil, checkUnits},
		{"units-settings", nil, checkUnitSettings},
		{"units-slices", []need{cgroupV2, resolvedPools}, checkUnitSlices},
		{"host-slices", []need{cgroupV2, resolvedPools, systemdAnswers}, checkHostSlices},
		{"directories", nil, checkDirectories},
		{"daemon", nil, checkDaemon},
		{"running-containers", []need{configured, runtimeUsed, resolvedPools}, checkRunning},
	}
}

// Run examines the host and the configuration. It returns all findings by descending severity.
// Queries to the runtime and to systemd take some seconds at most, and end with ctx.
func Run(ctx context.Context, host Host, c Configuration) []Finding {
	e := gather(ctx, host, c)
	for _, check := range checks() {
		if !slices.ContainsFunc(check.needs, func(n need) bool { return !n(e) }) {
			e.check = check.name
			check.run(e)
		}
	}
	slices.SortFunc(e.found, findings.Compare)
	return e.found
}

// report adds findings of the check that runs.
func (e *evidence) report(all ...Finding) {
	for _, f := range all {
		f.Check = e.check
		if f.Severity == Refuse && e.config.Mode == config.ModeObserve && isAboutOtherManagers(e.check) {
			f.Severity = Warning // the daemon writes nothing, so no conflict can occur
		}
		e.found = append(e.found, f)
	}
}

// add is report for one finding; remedy is empty if no action is necessary.
func (e *evidence) add(s Severity, subject, found, remedy string) {
	e.report(findings.New(s, subject, found, remedy))
}

// checkConfiguration reports the faults of the configuration. Without a file the other findings are about
// default values, and would mislead.
func checkConfiguration(e *evidence) {
	e.problems(e.configErr, Refuse)
	if !e.hasFile {
		e.add(Info, e.file, "no configuration file was read, and the default values put all CPUs into the shared pool",
			"name the file of the node with --config")
	}
}

// checkMode reports the mode observe, because it explains why the daemon changes nothing.
func checkMode(e *evidence) {
	if e.config.Mode == config.ModeObserve {
		e.add(Info, e.file+": mode",
			"is observe: run reports what it would write, and writes nothing",
			"set it to enforce and restart the daemon to enable writes")
	}
}

func isAboutOtherManagers(check string) bool {
	return strings.HasPrefix(check, "crio-") || strings.HasPrefix(check, "nri-plugin") || check == "kubelet-policy"
}

type (
	// Finding is a finding, in the form that the check of a cluster has too.
	Finding = findings.Finding
	// Severity is the effect of a finding on the node.
	Severity = findings.Severity
)

// Severities.
const (
	Info    = findings.Info
	Warning = findings.Warning
	Error   = findings.Error
	Refuse  = findings.Refuse
)

// Refusals returns the findings with which the daemon does not start, in the same order.
func Refusals(all []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Severity != Refuse })
}
