//go:build !race

package daemon

// modelDefault is the number of steps of TestModel.
const modelDefault = 10_000
