package noise

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Boot holds the CPUs of kernel arguments that sysfs does not show.
type Boot struct {
	// NoCallbacks contains the CPUs of rcu_nocbs=, ManagedIRQ of isolcpus=managed_irq.
	NoCallbacks, ManagedIRQ cpuset.Set
	// Interrupts contains irqaffinity=, for new interrupts with the boot CPU (kernel/irq/irqdesc.c).
	Interrupts cpuset.Set
}

// ParseBoot reads a kernel command line (/proc/cmdline). CPUs are below nbits, which is in
// 1..cpuset.MaxCPUs. ParseBoot skips invalid lists. Its error names them, and the result
// has the valid ones. As in the kernel, the first isolcpus=managed_irq is used, but the last
// rcu_nocbs= and irqaffinity=.
func ParseBoot(line string, nbits int) (Boot, error) {
	var (
		b          Boot
		bad        []string
		hasManaged bool // an isolcpus=managed_irq has been read
	)
	read := func(arg, value string, to *cpuset.Set) (ok bool) {
		set, err := cpuset.ParseKernel(value, nbits)
		if err != nil {
			bad = append(bad, arg)
			return false
		}
		*to = set
		return true
	}
	for _, arg := range arguments(line) {
		name, value, _ := strings.Cut(arg, "=")
		switch strings.ReplaceAll(name, "-", "_") {
		case "rcu_nocbs":
			read(arg, value, &b.NoCallbacks)
		case "irqaffinity":
			read(arg, value, &b.Interrupts)
		case "isolcpus":
			if managed, cpus := isolcpus(value); managed && !hasManaged {
				hasManaged = read(arg, cpus, &b.ManagedIRQ)
			}
		}
	}
	if len(bad) > 0 {
		return b, fmt.Errorf("kernel command line: %s: not a list of CPUs below %d: correct it for the next boot", strings.Join(bad, " "), nbits)
	}
	return b, nil
}

// isolcpus splits [FLAG,...]LIST. As in the kernel, words that begin with a letter are flags.
func isolcpus(value string) (managed bool, cpus string) {
	for value != "" && unicode.IsLetter(rune(value[0])) {
		flag, rest, more := strings.Cut(value, ",")
		managed = managed || more && flag == "managed_irq"
		value = rest
	}
	return managed, value
}

// arguments splits at blanks outside of quotes, and stops at "--", as the kernel does.
func arguments(line string) []string {
	quoted := false
	fields := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
	for i, f := range fields {
		if f == "--" {
			return fields[:i]
		}
		fields[i] = strings.ReplaceAll(f, `"`, "")
	}
	return fields
}

// BootFacts holds the kernel's command line, and whether it could be read.
type BootFacts struct {
	Boot
	Unknown bool  // the command line is unreadable
	Err     error // why Boot is unknown or incomplete
}
