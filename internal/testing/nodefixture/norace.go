//go:build !race

package nodefixture

// slowdown is the factor of race.go; without the race detector tests run at full speed.
const slowdown = 1
