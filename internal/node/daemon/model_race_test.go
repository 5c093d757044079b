//go:build race

package daemon

// modelDefault is the number of steps of TestModel. A step takes several times as long
// under the race detector.
const modelDefault = 4 * sequenceSteps

// manyPods is the maximum number of pods in a test that starts many daemons.
const manyPods = 200
