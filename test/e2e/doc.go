// Package e2e tests cpupoold in a cluster: a control plane on this machine, and a guest of test/vm as its node. README.md describes the tests and
// their durations.
package e2e
