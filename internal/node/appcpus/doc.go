// Package appcpus writes the files in which applications find their CPUs. The name of a
// file follows from names that the application knows: pod UID and container, or unit.
//
//	containers/<pod UID>/<container>.json
//	units/<unit>.json
//	units/<unit>.env     for EnvironmentFile=
//	units/<unit>.go.env  the same, with GOMAXPROCS for a unit with exclusive CPUs
//
// A rename replaces a file, so that an application never reads half of it. A file with
// unchanged content is not replaced, so that watching it is cheap. The content does not depend
// on the time. The daemon decides when a file appears and when it is removed.
package appcpus
