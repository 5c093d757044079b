// Package explain says why a container or a systemd unit runs where it runs: it makes
// the decision once more, from what the daemon has decided from, and notes how.
//
// Like the decision itself it reads nothing but its arguments.
package explain
