//go:build race

package daemon

// shortSteps is the number of steps of a short sequence of TestModel. A step takes several
// times as long under the race detector.
const shortSteps = 50

// manyPods is the maximum number of pods in a test that starts many daemons.
const manyPods = 200
