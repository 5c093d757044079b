//go:build race

package nodefixture

// slowdown is the factor by which tests run slower under the race detector.
const slowdown = 2
