// Package hostslices tests host services on a real systemd (build tag "guest"). All units in their slices must stay on the management CPUs
// after any action of systemd, and the original values must come back.
package hostslices
