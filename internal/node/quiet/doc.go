// Package quiet decides which optional writes wait while containers have
// exclusive CPUs (configuration key quiet), and when they are made after all.
// The package is pure: callers pass the time.
package quiet
