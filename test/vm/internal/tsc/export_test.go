package tsc

// Counter is exported for a measurement of the test's own.
var Counter = counter
