package account

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers of capabilities in include/uapi/linux/capability.h.
const (
	capDACReadSearch = 2
	capSysAdmin      = 21
	capPerfmon       = 38
	capBPF           = 39
)

// Host holds the files that explain why the kernel denies a call (EPERM, EACCES). A file that cannot be read is
// empty.
type Host struct {
	Status       string // /proc/thread-self/status
	UIDMap       string // /proc/self/uid_map
	Unprivileged string // /proc/sys/kernel/unprivileged_bpf_disabled
	Lockdown     string // /sys/kernel/security/lockdown
}

// Denial returns the cause and the remedy. A missing capability comes first: with it, the other causes matter
// less.
func (h Host) Denial() string {
	if missing := h.missing(); len(missing) > 0 {
		text := "this process lacks " + strings.Join(missing, ", ")
		if n := strings.TrimSpace(h.Unprivileged); n != "" && n != "0" && missing[0] == "CAP_BPF" {
			text += ", and kernel.unprivileged_bpf_disabled is " + n
		}
		return text + "; run as root, or add the capabilities to the container or to the unit (systemd/live-audit.conf)"
	}
	if strings.Contains(h.Lockdown, "[confidentiality]") {
		return "/sys/kernel/security/lockdown is confidentiality; boot with lockdown=integrity"
	}
	if fields := strings.Fields(h.UIDMap); len(fields) > 0 && strings.Join(fields, " ") != "0 0 4294967295" {
		return fmt.Sprintf("this process is in a user namespace (/proc/self/uid_map is %q), and its capabilities do not count for eBPF; run it in the user namespace of the host", strings.Join(fields, " "))
	}
	if mode := h.field("Seccomp"); mode != "" && mode != "0" {
		return "Seccomp in /proc/self/status is " + mode + ": a filter of system calls is in force; allow bpf, perf_event_open and open_by_handle_at in the seccomp profile or in SystemCallFilter= of the unit"
	}
	return "this process has the capabilities, so a security module such as SELinux or AppArmor denies the call; its record in the audit log (dmesg) names the rule"
}

// missing returns the capabilities that the process lacks. CAP_SYS_ADMIN contains the two for eBPF.
func (h Host) missing() (names []string) {
	has, err := strconv.ParseUint(h.field("CapEff"), 16, 64)
	if err != nil {
		return nil
	}
	is := func(n int) bool { return has>>n&1 != 0 }
	if !is(capBPF) && !is(capSysAdmin) {
		names = append(names, "CAP_BPF")
	}
	if !is(capPerfmon) && !is(capSysAdmin) {
		names = append(names, "CAP_PERFMON")
	}
	if !is(capDACReadSearch) {
		names = append(names, "CAP_DAC_READ_SEARCH")
	}
	return names
}

func (h Host) field(name string) string {
	for line := range strings.Lines(h.Status) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
