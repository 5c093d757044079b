package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// report writes the CPUs that the kernel lets this process use (proc(5), Cpus_allowed_list), how many they were when the process began, the
// CPU that it is on, its cgroup (cgroups(7)), and the environment that tells it its CPUs.
func report(out io.Writer) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	cpus, err := cpusAllowed(string(status))
	if err != nil {
		return err
	}
	on, err := lastCPU(string(stat))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "cpus %s\nbegan-with %d\non %s\ncgroup %s\n", cpus, runtime.NumCPU(), on, unified(string(cgroup)))
	for _, v := range os.Environ() {
		if err == nil && strings.HasPrefix(v, "CPUPOOL_") {
			_, err = fmt.Fprintf(out, "env %s\n", v)
		}
	}
	return err
}

// lastCPU returns field 39 of /proc/self/stat, processor. The command's name, field 2, may have anything in it but ends with the last ")".
func lastCPU(stat string) (string, error) {
	const afterName = 39 - 3
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= afterName {
		return "", fmt.Errorf("no field 39 in /proc/self/stat: %q", stat)
	}
	return fields[afterName], nil
}

func cpusAllowed(status string) (string, error) {
	for line := range strings.Lines(status) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list), nil
		}
	}
	return "", fmt.Errorf("no Cpus_allowed_list in /proc/self/status: is this Linux with CONFIG_CPUSETS?")
}

// unified returns the path in the version 2 hierarchy, the line with id 0 and no controllers; "-" where there is none.
func unified(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path)
		}
	}
	return "-"
}
