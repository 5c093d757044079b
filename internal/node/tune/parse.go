package tune

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// task is what /proc/PID/stat says of a task (proc_pid_stat(5)).
type task struct {
	comm string
	// flags are those of the kernel's task (include/linux/sched.h).
	flags uint64
	// start is when it began, in clock ticks since the boot: with the PID it tells one
	// task from all others.
	start uint64
}

// Flags of a task.
const (
	pfKThread       = 0x00200000 // PF_KTHREAD
	pfNoSetAffinity = 0x04000000 // PF_NO_SETAFFINITY
)

// isKernelThread says that the task is a thread of the kernel, movable that its affinity can be
// set from outside. Threads of interrupts follow their interrupt.
func (t task) isKernelThread() bool { return t.flags&pfKThread != 0 }

func (t task) isMovable() bool {
	return t.isKernelThread() && t.flags&pfNoSetAffinity == 0 && !strings.HasPrefix(t.comm, "irq/")
}

// Numbers of fields in /proc/PID/stat, counted from the one after the name.
const (
	statFlags = 9 - 3
	statStart = 22 - 3
)

// parseStat reads /proc/PID/stat. The name is in parentheses and may hold any byte.
func parseStat(s string) (task, error) {
	open, closed := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')')
	if open < 0 || closed < open {
		return task{}, errors.New("stat: no name in parentheses")
	}
	fields := strings.Fields(s[closed+1:])
	if len(fields) <= statStart {
		return task{}, fmt.Errorf("stat: %d fields after the name; want more than %d", len(fields), statStart)
	}
	flags, err := strconv.ParseUint(fields[statFlags], 10, 64)
	if err != nil {
		return task{}, fmt.Errorf("stat: flags %q are no number", fields[statFlags])
	}
	start, err := strconv.ParseUint(fields[statStart], 10, 64)
	if err != nil {
		return task{}, fmt.Errorf("stat: start time %q is no number", fields[statStart])
	}
	return task{comm: s[open+1 : closed], flags: flags, start: start}, nil
}

// parseAllowed finds the CPUs that a task may use, those included that are offline, in
// /proc/PID/status (proc_pid_status(5)).
func parseAllowed(s string) (cpuset.Set, error) {
	for line := range strings.Lines(s) {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			return cpuset.Parse(strings.TrimSpace(list))
		}
	}
	return cpuset.Set{}, errors.New("status: no Cpus_allowed_list")
}

// parseSetup reads irqbalance's answer to "setup": words, of which BANNED is followed by
// the CPUs that it leaves alone, as a mask of hexadecimal digits.
func parseSetup(s string, nbits int) (banned cpuset.Set, err error) {
	words := strings.Fields(s)
	for i, w := range words {
		if w != "BANNED" {
			continue
		}
		if i+1 == len(words) {
			return cpuset.Set{}, nil // of no CPU there is no digit in some versions
		}
		mask, err := parseHex(words[i+1], nbits)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("irqbalance: banned CPUs: %w", err)
		}
		return mask, nil
	}
	return cpuset.Set{}, errors.New("irqbalance: it does not say which CPUs it leaves alone")
}

// parseHex reads a mask that may have more digits than the machine has CPUs, as long as
// they are zeros: irqbalance prints as many as it was built for.
func parseHex(s string, nbits int) (cpuset.Set, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(s), "0x"), ",", "")
	if digits == "" {
		return cpuset.Set{}, errors.New("no digits")
	}
	var cpus []int
	for i := range len(digits) {
		n, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 4)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("%q is not a mask of hexadecimal digits", clip(s))
		}
		for bit := range 4 {
			cpu := 4*i + bit
			if n&(1<<bit) == 0 {
				continue
			}
			if cpu >= nbits {
				return cpuset.Set{}, fmt.Errorf("mask %q has CPU %d, which there cannot be", clip(s), cpu)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

// parseBanned reads which CPUs the administrator has irqbalance leave alone: an
// environment file of systemd, /etc/default/irqbalance or /etc/sysconfig/irqbalance. The
// mask goes before the list, as in irqbalance; neither is the empty set.
func parseBanned(text string, nbits int) (cpuset.Set, error) {
	mask, list := "", ""
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(strings.TrimPrefix(key, "export ")) {
		case "IRQBALANCE_BANNED_CPUS":
			mask = value
		case "IRQBALANCE_BANNED_CPULIST":
			list = value
		}
	}
	switch {
	case mask != "":
		set, err := parseHex(mask, nbits)
		if err != nil {
			return set, fmt.Errorf("IRQBALANCE_BANNED_CPUS: %w", err)
		}
		return set, nil
	case list != "" && list != "-":
		set, err := cpuset.Parse(list)
		if err != nil {
			return set, fmt.Errorf("IRQBALANCE_BANNED_CPULIST: %w", err)
		}
		return set, nil
	}
	return cpuset.Set{}, nil
}

// clip keeps an error readable whatever was read.
func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
