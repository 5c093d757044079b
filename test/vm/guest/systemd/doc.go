// Package systemd is a guest test suite: it holds the systemd in memory that
// unit tests run on, and the D-Bus client of pkg/cgroup, to the real systemd.
package systemd
