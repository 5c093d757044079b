// Package conmon checks the cgroups of CRI-O's monitors in the slices of pods (monitor_cgroup = "pod"). Its tests run in a guest only.
package conmon
