// Package hostslices decides which systemd units of host services get the CPUs of host services.
// A unit with CPUs from an administrator, a unit with pods, and a unit in another placed unit keep
// their CPUs. The daemon asks systemd and writes the CPUs. Pure, except for the reader of unit
// files that the caller passes.
package hostslices
