package preflight

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

// Numbers of capabilities (capability.h).
const (
	capDACReadSearch = 2
	capSysAdmin      = 21
	capPerfmon       = 38
	capBPF           = 39
)

// liveAuditOn reports whether the live audit is configured.
func liveAuditOn(e *evidence) bool { return configured(e) && e.config.AuditLive }

// checkLiveAudit reports what keeps the kernel from loading the program of the live audit. The check
// runs with the capabilities of its own process. A unit can have fewer capabilities.
func checkLiveAudit(e *evidence) {
	if e.config.Mode == config.ModeObserve {
		e.add(Info, e.file+": audit.live", "has no effect in mode: observe, because exclusive CPUs are not in force",
			"set mode to enforce, or use `cpupoold audit`")
		return
	}
	if missing := missingCapabilities(e.root); len(missing) > 0 {
		e.add(Warning, e.file+": audit.live", fmt.Sprintf("is true, and this process lacks %s: only the sampled audit runs", strings.Join(missing, ", ")),
			"run the check as the daemon runs, or add the capabilities; the unit needs the drop-in systemd/live-audit.conf")
	}
	const lockdown = "/sys/kernel/security/lockdown"
	if b, err := readFile(e.root, lockdown); err == nil && strings.Contains(string(b), "[confidentiality]") {
		e.add(Warning, lockdown, "is confidentiality, in which eBPF programs cannot read the kernel: only the sampled audit runs",
			"boot with lockdown=integrity, or set audit.live: false")
	}
	for _, option := range missingOptions(procroot.Of(e.root, 1), e.kernel.String()) {
		e.add(Warning, "kernel "+e.kernel.String(), fmt.Sprintf("is built without %s: only the sampled audit runs", option),
			"use a kernel with this option, or set audit.live: false")
	}
}

// missingCapabilities returns the capabilities for the live audit that this process lacks. CAP_SYS_ADMIN
// contains those for eBPF.
func missingCapabilities(root fs.FS) (missing []string) {
	b, err := readFile(root, "/proc/self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		text, is := strings.CutPrefix(line, "CapEff:")
		if !is {
			continue
		}
		has, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil
		}
		if has>>capSysAdmin&1 == 0 && has>>capBPF&1 == 0 {
			missing = append(missing, "CAP_BPF")
		}
		if has>>capSysAdmin&1 == 0 && has>>capPerfmon&1 == 0 {
			missing = append(missing, "CAP_PERFMON")
		}
		if has>>capDACReadSearch&1 == 0 {
			missing = append(missing, "CAP_DAC_READ_SEARCH")
		}
	}
	return missing
}

// missingOptions returns the options of the program that the configuration of the kernel lacks, if
// that is in /boot. Without BTF the program uses the tracepoint, which needs no option.
func missingOptions(machine procroot.FS, release string) (missing []string) {
	b, err := fs.ReadFile(machine, "/boot/config-"+release)
	if err != nil {
		return nil
	}
	lines := strings.Split(string(b), "\n")
	for _, option := range []string{"CONFIG_BPF_SYSCALL", "CONFIG_BPF_EVENTS", "CONFIG_CGROUPS"} {
		if !slices.Contains(lines, option+"=y") {
			missing = append(missing, option)
		}
	}
	return missing
}
