// Package vectors runs vector files, inputs with expected outputs as data, against
// the project:
//
//	go test ./test/vectors -dir DIR -v
//
// runs each case of each DIR/*.json as a subtest. Without -dir it runs the
// project's own cases in testdata. MAP.md says kind by kind which function a case
// exercises, or what has to be written first, and which cases we answer
// differently on purpose.
package vectors
