// Package quiet decides which optional writes are deferred while there are
// owners (configuration key quiet), and when they are made after all.
//
// Quiet holds the deferred CPUs and weights. Writes that keep CPUs exclusive,
// and writes for a container that starts, are never deferred; nothing is
// deferred for longer than configured. The package is pure: callers pass the
// time.
package quiet
