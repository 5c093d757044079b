// Package hostslices holds the tests of host services on a real systemd (build tag "guest"): they are confined to the management CPUs with
// all that is in their slices, whatever systemd is made to do, and put back.
package hostslices
