// Package e2e tests cpupoold in a cluster: a control plane on this machine, and a guest of test/vm as its node. README.md says what is tested and
// how long it takes.
package e2e
