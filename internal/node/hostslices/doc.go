// Package hostslices decides what becomes of the host's own services: of systemd's slices
// with all that is in them. It is pure; who asks systemd and writes is the daemon.
package hostslices
