// Package appcpus tells applications their CPUs, in files that they find by names
// that they know: a container by its pod's UID (downward API) and its own name, a
// systemd unit by its own.
//
//	containers/<pod UID>/<container>.json
//	units/<unit>.json
//	units/<unit>.env     for EnvironmentFile=
//	units/<unit>.go.env  likewise, with GOMAXPROCS for a unit with CPUs of its own
//
// A file appears when the placement has been verified, is replaced when another
// one has been, and goes with its pod. It is replaced by a rename, so that nobody
// reads half of it, and only if it changes, so that watching it is cheap. Nothing
// in it depends on the time.
package appcpus
