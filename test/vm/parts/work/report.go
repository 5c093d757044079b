package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// report writes two lines: the CPUs that the kernel lets this process use (proc(5), Cpus_allowed_list) and its cgroup (cgroups(7)).
func report(out io.Writer) error {
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
	_, err = fmt.Fprintf(out, "cpus %s\ncgroup %s\n", cpus, unified(string(cgroup)))
	return err
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
