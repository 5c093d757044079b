//go:build !race

package daemon

// shortSteps is the number of steps of a short sequence of TestModel.
const shortSteps = 80

// manyPods is the maximum number of pods in a test that starts many daemons.
const manyPods = 500
