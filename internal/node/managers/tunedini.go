package managers

import (
	"path"
	"slices"
	"strings"
)

// tunedSection is a section of a tuned.conf. The first one, without a name, holds the
// options before the first header.
type tunedSection struct {
	name    string
	options []tunedOption
}

type tunedOption struct{ key, value string }

// value returns the value of the last option with this key, or "".
func (s *tunedSection) value(key string) string {
	for _, o := range slices.Backward(s.options) {
		if o.key == key {
			return o.value
		}
	}
	return ""
}

// parseTuned reads the format of Python's ConfigParser as tuned uses it: sections in
// brackets, KEY = VALUE, comments that start with # or ; and indented continuation lines.
// It skips other lines, although tuned rejects a profile with such lines.
func parseTuned(b []byte) []tunedSection {
	sections := []tunedSection{{}}
	for line := range strings.Lines(string(b)) {
		last := &sections[len(sections)-1]
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
		case text[0] == '[' && strings.HasSuffix(text, "]"):
			sections = append(sections, tunedSection{name: strings.TrimSpace(text[1 : len(text)-1])})
		case (line[0] == ' ' || line[0] == '\t') && len(last.options) > 0:
			last.options[len(last.options)-1].value += " " + text
		default:
			key, value, found := strings.Cut(text, "=")
			if key = strings.TrimSpace(key); found && key != "" {
				last.options = append(last.options, tunedOption{key, strings.Trim(strings.TrimSpace(value), `"'`)})
			}
		}
	}
	return sections
}

// aspectOf returns the aspect of an option of a plugin (tuned, plugins/plugin_*.py), or ""
// if the option does not change CPUs.
func aspectOf(plugin, key, value string) Aspect {
	switch plugin {
	case "scheduler":
		return schedulerAspect(key, value)
	case "irqbalance":
		if key == "banned_cpus" {
			return Interrupts
		}
	case "irq":
		if key == "affinity" || strings.HasPrefix(key, "affinity_") {
			return Interrupts
		}
	case "sysfs":
		return sysfsAspect(key)
	case "systemd":
		if key == "cpu_affinity" {
			return Services
		}
	case "cpu":
		return cpuAspect(key)
	case "bootloader":
		if strings.HasPrefix(key, "cmdline") && hasCPUArguments(value) {
			return BootCPUs
		}
	}
	return ""
}

func schedulerAspect(key, value string) Aspect {
	switch {
	case key == "isolated_cores", key == "cgroup_for_isolated_cores", strings.HasPrefix(key, "cgroup.") || key == "cgroup":
		return Threads
	case key == "default_irq_smp_affinity" && value != "ignore":
		return Interrupts
	case strings.HasPrefix(key, "group."):
		// group.NAME = RULE_PRIO:SCHED:PRIO:AFFINITY:REGEX; * keeps the affinity.
		if fields := strings.SplitN(value, ":", 5); len(fields) == 5 && fields[3] != "*" && fields[3] != "" {
			return Threads
		}
	}
	return ""
}

func sysfsAspect(key string) Aspect {
	switch {
	case strings.Contains(key, "/workqueue/") && path.Base(key) == "cpumask":
		return Workqueues
	case strings.HasPrefix(key, "/proc/irq/"), strings.HasSuffix(key, "/rps_cpus"):
		return Interrupts
	case strings.HasPrefix(key, "/sys/devices/system/cpu/") &&
		(strings.Contains(key, "/cpufreq/") || strings.Contains(key, "/cpuidle/") || strings.Contains(key, "/intel_pstate/") || strings.Contains(key, "/power/")):
		return Power
	}
	return ""
}

func cpuAspect(key string) Aspect {
	switch key {
	case "governor", "sampling_down_factor", "energy_perf_bias", "energy_performance_preference", "latency_low", "latency_high", "force_latency",
		"min_perf_pct", "max_perf_pct", "no_turbo", "pm_qos_resume_latency_us", "boost":
		return Power
	}
	return ""
}

// hasCPUArguments reports whether kernel arguments set the CPUs of tasks, interrupts or
// kernel threads.
func hasCPUArguments(arguments string) bool {
	for word := range strings.FieldsSeq(arguments) {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "+-"), "=")
		if slices.Contains([]string{"isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity", "tuned.non_isolcpus", "systemd.cpu_affinity"}, name) {
			return true
		}
	}
	return false
}
