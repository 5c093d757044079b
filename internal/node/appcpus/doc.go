// Package appcpus writes the files in which applications find their CPUs. The name of a
// file follows from names that the application knows: pod UID and container, or unit.
//
//	containers/<pod UID>/<container>.json
//	units/<unit>.json
//	units/<unit>.env     for EnvironmentFile=
//	units/<unit>.go.env  the same, with GOMAXPROCS for a unit with exclusive CPUs
//
// A file appears when the placement is verified, and is removed with its pod. A rename
// replaces it, so that no reader sees half of it. An unchanged file is not replaced, so
// that watching it is cheap. The content does not depend on the time.
package appcpus
