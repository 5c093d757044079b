//go:build race

package daemon

// modelDefault is the number of steps of TestModel: each takes several times as long
// under the race detector.
const modelDefault = 1_000

// manyPods are the most that a test has daemons made for.
const manyPods = 200
