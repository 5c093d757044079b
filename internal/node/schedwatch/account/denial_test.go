package account_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

// TestDenial checks the cause and the remedy of a call that the kernel denies.
func TestDenial(t *testing.T) {
	const (
		all     = "Name:\tcpupoold\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
		admin   = "CapEff:\t0000000000200004\nSeccomp:\t0\n" // CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH
		noPerf  = "CapEff:\t0000008000000004\nSeccomp:\t0\n"
		nothing = "CapEff:\t0000000000000000\nSeccomp:\t2\n"
		host    = "         0          0 4294967295\n"
	)
	for name, c := range map[string]struct {
		account.Host
		want string
	}{
		"no capability":        {account.Host{Status: nothing, UIDMap: host, Unprivileged: "2\n"}, "this process lacks CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH, and kernel.unprivileged_bpf_disabled is 2; run as root, "},
		"allowed for all":      {account.Host{Status: nothing, UIDMap: host, Unprivileged: "0\n"}, "this process lacks CAP_BPF, CAP_PERFMON, CAP_DAC_READ_SEARCH; run as root, "},
		"one is missing":       {account.Host{Status: noPerf, UIDMap: host, Unprivileged: "2\n"}, "this process lacks CAP_PERFMON; run as root, "},
		"lockdown":             {account.Host{Status: all, UIDMap: host, Lockdown: "none integrity [confidentiality]\n"}, "/sys/kernel/security/lockdown is confidentiality; boot with lockdown=integrity"},
		"weaker lockdown":      {account.Host{Status: all, UIDMap: host, Lockdown: "none [integrity] confidentiality\n"}, "this process has the capabilities, so a security module"},
		"a user namespace":     {account.Host{Status: all, UIDMap: "0 100000 65536\n"}, `/proc/self/uid_map is "0 100000 65536"`},
		"seccomp":              {account.Host{Status: strings.Replace(all, "Seccomp:\t0", "Seccomp:\t2", 1), UIDMap: host}, "Seccomp in /proc/self/status is 2: a filter of system calls is in force; allow bpf"},
		"CAP_SYS_ADMIN is all": {account.Host{Status: admin, UIDMap: host}, "this process has the capabilities, so a security module"},
		"nothing is known":     {account.Host{}, "a security module"},
	} {
		if got := c.Denial(); !strings.Contains(got, c.want) || strings.Contains(got, "MEMLOCK") {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
