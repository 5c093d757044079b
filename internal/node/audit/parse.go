package audit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// errForm is the error of text that the kernel does not print in the named file.
var errForm = errors.New("not in the kernel's format")

// Reading holds the values of a task at one moment.
type Reading struct {
	TID      int
	Comm     string
	Flags    uint64 // PF_ flags of include/linux/sched.h
	CPU      int    // the current or last CPU
	Start    uint64 // since the boot, in units of USER_HZ
	Run      uint64 // CPU time, in nanoseconds
	Policy   int    // SCHED_ constant of sched(7)
	Priority int    // of a real-time task, 1..99
}

// userHZ is the unit of times in /proc/PID/stat and /proc/stat, the same on all 64-bit
// architectures (include/uapi/asm-generic/param.h).
const userHZ = 100

const tick = 1_000_000_000 / userHZ

// Fields of /proc/PID/stat after the name, counted from 0. The state, field 3 in
// proc_pid_stat(5), is field 0.
const (
	statFlags     = 6
	statUser      = 11
	statSystem    = 12
	statStart     = 19
	statCPU       = 36
	statPriority  = 37
	statPolicy    = 38
	statFieldsMin = 39
)

// ParseStat parses /proc/PID/task/TID/stat. The name can contain parentheses and line ends.
func ParseStat(b []byte) (Reading, error) {
	open, closed := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || closed < open {
		return Reading{}, fmt.Errorf("stat: %w", errForm)
	}
	tid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	fields := slices.AppendSeq(make([][]byte, 0, 64), bytes.FieldsSeq(b[closed+1:])) // on the stack: there are thousands of tasks
	if err != nil || tid < 1 || len(fields) < statFieldsMin {
		return Reading{}, fmt.Errorf("stat: %w", errForm)
	}
	r := Reading{TID: tid, Comm: string(b[open+1 : closed])}
	var bad bool
	number := func(i, bits int) uint64 {
		n, err := strconv.ParseUint(string(fields[i]), 10, bits)
		bad = bad || err != nil
		return n
	}
	r.Flags = number(statFlags, 32)
	r.Start = number(statStart, 64)
	r.CPU = int(number(statCPU, 31))           //nolint:gosec // 31 bits
	r.Priority = int(number(statPriority, 31)) //nolint:gosec // 31 bits
	r.Policy = int(number(statPolicy, 31))     //nolint:gosec // 31 bits
	user, system := number(statUser, 54), number(statSystem, 54)
	if bad || r.CPU >= cpuset.MaxCPUs || user+system > 1<<54/tick*1000 {
		return Reading{}, fmt.Errorf("stat of task %d: %w", tid, errForm)
	}
	r.Run = (user + system) * tick
	return r, nil
}

// ParseSchedstat returns the CPU time in /proc/PID/task/TID/schedstat, in nanoseconds.
func ParseSchedstat(b []byte) (uint64, error) {
	fields := slices.AppendSeq(make([][]byte, 0, 3), bytes.FieldsSeq(b))
	if len(fields) != 3 {
		return 0, fmt.Errorf("schedstat: %w", errForm)
	}
	run, err := strconv.ParseUint(string(fields[0]), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("schedstat: %w", errForm)
	}
	return run, nil
}

// ParseAllowed parses Cpus_allowed_list of /proc/PID/task/TID/status.
func ParseAllowed(b []byte) (cpuset.Set, error) {
	for line := range bytes.Lines(b) {
		list, found := bytes.CutPrefix(line, []byte("Cpus_allowed_list:"))
		if !found {
			continue
		}
		set, err := cpuset.Parse(string(bytes.TrimSpace(list)))
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("status: Cpus_allowed_list: %w", err)
		}
		return set, nil
	}
	return cpuset.Set{}, fmt.Errorf("status: no Cpus_allowed_list: %w", errForm)
}

// ParseCgroup parses the cgroup v2 path of /proc/PID/cgroup. It returns the path without the
// leading slash, so that the root is the empty string. In a cgroup namespace the paths of other
// processes begin with "/..": that is an error.
func ParseCgroup(b []byte) (string, error) {
	for line := range bytes.Lines(b) {
		path, found := bytes.CutPrefix(line, []byte("0::/"))
		if !found {
			continue
		}
		p := strings.TrimSuffix(strings.TrimSuffix(string(path), "\n"), " (deleted)")
		if p == ".." || strings.HasPrefix(p, "../") {
			return "", fmt.Errorf("cgroup /%s: this process is in a cgroup namespace of its own; run in the host's", p)
		}
		return p, nil
	}
	return "", fmt.Errorf("cgroup: no line of cgroup v2: %w", errForm)
}

// Times holds the times of a CPU since the boot, in nanoseconds. Tasks is the user and kernel
// time of tasks, Interrupts the time of interrupts and softirqs. Stolen is the time that the
// hypervisor gave to other guests.
type Times struct {
	Tasks, Interrupts, Stolen uint64
}

// ParseTimes parses the lines of single CPUs in /proc/stat.
func ParseTimes(b []byte) (map[int]Times, error) {
	all := make(map[int]Times)
	for line := range bytes.Lines(b) {
		rest, found := bytes.CutPrefix(line, []byte("cpu"))
		if !found || len(rest) == 0 || rest[0] < '0' || rest[0] > '9' {
			continue
		}
		fields := strings.Fields(string(rest))
		if len(fields) < 9 {
			return nil, fmt.Errorf("stat: line of a CPU: %w", errForm)
		}
		var n [9]uint64
		for i := range n {
			v, err := strconv.ParseUint(fields[i], 10, 54)
			if err != nil || i > 0 && v > 1<<54/tick*1000 {
				return nil, fmt.Errorf("stat: line of CPU %s: %w", fields[0], errForm)
			}
			n[i] = v
		}
		if n[0] >= cpuset.MaxCPUs {
			return nil, fmt.Errorf("stat: CPU %d: %w", n[0], errForm)
		}
		// user nice system idle iowait irq softirq steal
		all[int(n[0])] = Times{Tasks: (n[1] + n[2] + n[3]) * tick, Interrupts: (n[6] + n[7]) * tick, Stolen: n[8] * tick} //nolint:gosec // below MaxCPUs
	}
	return all, nil
}

// ParseUptime parses the first number of /proc/uptime. It returns units of USER_HZ.
func ParseUptime(b []byte) (uint64, error) {
	first, _, _ := strings.Cut(string(b), " ")
	whole, part, _ := strings.Cut(first, ".")
	s, err := strconv.ParseUint(whole, 10, 40)
	hundredths, partErr := strconv.ParseUint(part, 10, 8)
	if err != nil || partErr != nil || len(part) != 2 {
		return 0, fmt.Errorf("uptime: %w", errForm)
	}
	return s*userHZ + hundredths, nil
}
