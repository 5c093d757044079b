// Package findings holds the form of findings: of `cpupoold check` on a node, and of
// `kubectl cpupool check` on a cluster. Package codes describes the names of the checks.
package findings
