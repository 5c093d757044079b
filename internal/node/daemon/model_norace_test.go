//go:build !race

package daemon

// modelDefault is the number of steps of TestModel.
const modelDefault = 10_000

// manyPods are the most that a test has daemons made for.
const manyPods = 500
