// Package retry decides when the daemon repeats a write, and when it pauses.
//
// Backoffs holds a pause for each refused write, for each recorded value that
// does not last, and for each property that another process keeps overwriting.
// Pauses grow while the cause lasts. They affect one cgroup, or one property of
// it, so that all others are written as usual. The package is pure: callers
// pass the time.
package retry
