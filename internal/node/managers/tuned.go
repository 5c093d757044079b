package managers

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

// Tuned is the state of tuned. Its profiles count also while it does not run.
type Tuned struct {
	// Profiles holds the names of the active profiles; empty if tuned applies no profile.
	Profiles []string
	// Known is true if a file of profiles was read. A container may lack it.
	Known bool
	// PID is the process of the tuned daemon, or 0. Its settings stay after it stops.
	PID int
}

// ReadTuned reads the names of the active profiles (tuned, consts.py). It does not read the
// profiles: they include others, and have variables and functions.
func ReadTuned(root fs.FS) Tuned {
	var t Tuned
	for _, name := range []string{"etc/tuned/active_profile", "etc/tuned/post_loaded_profile"} {
		b, err := procroot.ReadFile(root, name)
		t.Known = t.Known || err == nil
		t.Profiles = append(t.Profiles, strings.Fields(string(b))...)
	}
	b, err := procroot.ReadFile(root, "run/tuned/tuned.pid")
	if pid := strings.TrimSpace(string(b)); err == nil {
		if line, err := procroot.ReadFile(root, path.Join("proc", pid, "cmdline")); err == nil && strings.Contains(string(line), "tuned") {
			t.PID, _ = strconv.Atoi(pid) // proc has a directory of this name
		}
	}
	return t
}

// SetsPowerOnly reports whether all active profiles are profiles of tuned that set frequency and
// C-states, and no affinity, interrupts or workqueues (tuned 2.25, profiles).
func (t *Tuned) SetsPowerOnly() bool {
	stock := []string{
		"accelerator-performance", "balanced", "balanced-battery", "desktop", "latency-performance", "network-latency", "network-throughput",
		"powersave", "throughput-performance", "virtual-guest", "virtual-host",
	}
	return !slices.ContainsFunc(t.Profiles, func(p string) bool { return !slices.Contains(stock, p) })
}
