package telemetry

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Busy returns, for each online CPU, the seconds since the boot in which it was not idle. The
// source is stat below proc (proc_stat(5)). Time that waits for a disk is idle time.
func Busy(proc string) (map[int]float64, error) {
	fs, err := procfs.NewFS(proc)
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	stat, err := fs.Stat()
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	busy := make(map[int]float64, len(stat.CPU))
	for id, c := range stat.CPU { // the times of guests are in user and nice
		busy[int(id)] = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	}
	return busy, nil
}

// cpuReadings returns time by mode and run queue wait (with CONFIG_SCHEDSTATS) of each CPU.
func cpuReadings(proc procfs.FS, pools []Pool) ([]reading, error) {
	members := func(cpu int) []PoolName {
		var names []PoolName
		for _, p := range pools {
			if p.CPUs.Contains(cpu) {
				names = append(names, p.PoolName)
			}
		}
		return names
	}
	stat, err := proc.Stat()
	if err != nil {
		return nil, fmt.Errorf("read CPU times: %w", err)
	}
	var all []reading
	for id, c := range stat.CPU {
		in := members(int(id))
		for _, mode := range []struct {
			name    string
			seconds float64
		}{
			{"user", c.User}, {"nice", c.Nice}, {"system", c.System}, {"idle", c.Idle}, {"iowait", c.Iowait},
			{"irq", c.IRQ}, {"softirq", c.SoftIRQ}, {"steal", c.Steal},
		} {
			all = append(all, reading{source{poolSeconds, strconv.FormatInt(id, 10), mode.name}, mode.seconds, in})
		}
	}
	sched, err := proc.Schedstat()
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read run queue waits: %w", err)
	}
	for _, c := range sched.CPUs {
		id, err := strconv.Atoi(c.CPUNum)
		if err != nil {
			return nil, fmt.Errorf("read run queue waits: CPU %q: %w", c.CPUNum, err)
		}
		waited := time.Duration(c.WaitingNanoseconds).Seconds()
		all = append(all, reading{source{poolWait, c.CPUNum, ""}, waited, members(id)})
	}
	return all, nil
}

// cpuStat returns nil if the cgroup is gone or has not used CPU time, because the library returns
// zeros for a missing cgroup.
func cpuStat(root, path string) (*stats.CPUStat, error) {
	cg, err := cgroup2.Load("/"+path, cgroup2.WithMountpoint(root))
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", path, err)
	}
	m, err := cg.StatFiltered(cgroup2.StatCPU)
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, os.ErrNotExist): // removed during the read
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read statistics of cgroup %s: %w", path, err)
	case m.CPU.GetUsageUsec() == 0:
		return nil, nil
	}
	return m.CPU, nil
}

func microseconds(n uint64) float64 { return float64(n) / 1e6 }
