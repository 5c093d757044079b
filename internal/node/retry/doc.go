// Package retry decides how long the daemon waits before it writes again. Backoffs
// holds one record for each refused write and for each value that another
// process keeps overwriting. The package is pure: callers pass the time.
package retry
