package tune

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// task is a task in /proc/PID/stat (proc_pid_stat(5)).
type task struct {
	comm string
	// flags is the flags field of task_struct (include/linux/sched.h).
	flags uint64
	// start is the start time in clock ticks since boot. With the PID it identifies a task.
	start uint64
}

// Flags of a task.
const (
	pfKThread       = 0x00200000 // PF_KTHREAD
	pfNoSetAffinity = 0x04000000 // PF_NO_SETAFFINITY
)

func (t task) isKernelThread() bool { return t.flags&pfKThread != 0 }

// isMovable reports whether t is a kernel thread with an affinity that can be set. Threads
// of interrupts follow their interrupt.
func (t task) isMovable() bool {
	return t.isKernelThread() && t.flags&pfNoSetAffinity == 0 && !strings.HasPrefix(t.comm, "irq/")
}

// Indexes of fields in /proc/PID/stat after the name. Field 3 has index 0.
const (
	statFlags = 9 - 3
	statStart = 22 - 3
)

// parseStat reads /proc/PID/stat. The name in parentheses may contain any byte.
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

// parseAllowed returns the CPUs that a task may use, including offline CPUs, from
// /proc/PID/status (proc_pid_status(5)).
func parseAllowed(s string) (cpuset.Set, error) {
	for line := range strings.Lines(s) {
		if list, is := strings.CutPrefix(line, "Cpus_allowed_list:"); is {
			return cpuset.Parse(strings.TrimSpace(list))
		}
	}
	return cpuset.Set{}, errors.New("status: no Cpus_allowed_list")
}

// parseSetup reads irqbalance's answer to "setup". The word after BANNED is the hexadecimal
// mask of the banned CPUs.
func parseSetup(s string, nbits int) (banned cpuset.Set, err error) {
	words := strings.Fields(s)
	for i, w := range words {
		if w != "BANNED" {
			continue
		}
		if i+1 == len(words) {
			return cpuset.Set{}, nil // some versions print an empty mask without digits
		}
		mask, err := parseHex(words[i+1], nbits)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("irqbalance: banned CPUs: %w", err)
		}
		return mask, nil
	}
	return cpuset.Set{}, errors.New("irqbalance: the answer to setup has no banned CPUs")
}

// parseHex reads a mask of CPUs below nbits. More digits are allowed if they are zero,
// because irqbalance prints a digit for each CPU for which it was built.
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
				return cpuset.Set{}, fmt.Errorf("mask %q has CPU %d, want CPUs below %d", clip(s), cpu, nbits)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

// parseBanned returns the banned CPUs of an environment file: /etc/default/irqbalance or
// /etc/sysconfig/irqbalance. As in irqbalance, the mask takes precedence over the list.
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

func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
