// Package vectors runs vector files, inputs with expected outputs as data, against the
// project:
//
//	go test ./test/vectors -dir DIR -v
//
// runs each case of each DIR/*.json as a subtest. Without -dir it runs the project's
// own cases in testdata. MAP.md lists the functions that a case of each kind exercises,
// the kinds that wait for a function, and the cases that we answer differently on
// purpose.
package vectors
