// Package preflight examines a host and a configuration before cpupoold writes
// anything: what `cpupoold check` prints, and what `cpupoold run` refuses to
// start with.
//
// [Run] looks at everything and returns all findings at once. What it learns it
// learns through [Host]: files through an fs.FS, the few things that no file
// tells (the runtime's answer, systemd's, whether a directory can be written)
// through functions. It changes nothing.
//
// The kernel behaviour behind the checks is described in
// Documentation/admin-guide/cgroup-v2.rst; the kubelet's in KEP-3570 and KEP-4033.
package preflight
