// Package preflight examines a host and a configuration before cpupoold writes anything.
// `cpupoold check` prints the findings. `cpupoold run` does not start if one is a refusal.
//
// [Run] makes all checks and returns all findings. It reads through [Host]: files through an
// fs.FS, and facts without a file (answers of the runtime and of systemd, whether a directory
// is writable) through functions. It changes nothing.
//
// Documentation/admin-guide/cgroup-v2.rst describes the kernel's behavior behind the checks.
// KEP-3570 and KEP-4033 describe the kubelet's.
package preflight
