package noise

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Boot is what the kernel's command line says of CPUs and sysfs does not show.
type Boot struct {
	// NoCallbacks are the CPUs of rcu_nocbs=, ManagedIRQ those of isolcpus=managed_irq.
	NoCallbacks, ManagedIRQ cpuset.Set
	// Interrupts are the CPUs of irqaffinity=, which new interrupts go to besides the one
	// that booted (kernel/irq/irqdesc.c).
	Interrupts cpuset.Set
}

// ParseBoot reads a command line (/proc/cmdline) for CPUs below nbits, in
// 1..cpuset.MaxCPUs. A list that cannot be read counts for nothing, and the error names
// it; what else there is comes with it. Of several isolcpus=managed_irq the first
// counts, of rcu_nocbs= and irqaffinity= the last, as in the kernel.
func ParseBoot(line string, nbits int) (Boot, error) {
	var (
		b     Boot
		bad   []string
		spent bool // an isolcpus=managed_irq has been seen
	)
	list := func(arg, value string) (cpuset.Set, bool) {
		set, err := cpuset.ParseKernel(value, nbits)
		if err != nil {
			bad = append(bad, arg)
		}
		return set, err == nil
	}
	for _, arg := range arguments(line) {
		name, value, _ := strings.Cut(arg, "=")
		switch strings.ReplaceAll(name, "-", "_") {
		case "rcu_nocbs":
			if set, ok := list(arg, value); ok {
				b.NoCallbacks = set
			}
		case "irqaffinity":
			if set, ok := list(arg, value); ok {
				b.Interrupts = set
			}
		case "isolcpus":
			managed, cpus := isolcpus(value)
			if !managed || spent {
				continue
			}
			if set, ok := list(arg, cpus); ok {
				b.ManagedIRQ, spent = set, true
			}
		}
	}
	if len(bad) > 0 {
		return b, fmt.Errorf("kernel command line: %s: not a list of CPUs below %d: correct it for the next boot", strings.Join(bad, " "), nbits)
	}
	return b, nil
}

// isolcpus splits [FLAG,...]LIST and says whether managed_irq is among the flags. What
// begins with a letter is a flag to the kernel, known or not.
func isolcpus(value string) (managed bool, cpus string) {
	for value != "" && unicode.IsLetter(rune(value[0])) {
		flag, rest, more := strings.Cut(value, ",")
		managed = managed || more && flag == "managed_irq"
		value = rest
	}
	return managed, value
}

// arguments splits a command line as the kernel does: at blanks that are not in double
// quotes, up to "--", behind which is what init gets. Quotes around a value go.
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
