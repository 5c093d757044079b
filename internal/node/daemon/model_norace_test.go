//go:build !race

package daemon

// modelDefault is the number of steps that TestModel makes: two sequences of each kind of node.
// `make test-model-fake` runs more.
const modelDefault = 12 * sequenceSteps

// manyPods is the maximum number of pods in a test that starts many daemons.
const manyPods = 500
