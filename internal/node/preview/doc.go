// Package preview shows what the daemon would do, without a daemon and without a
// write: DryRun returns the plan with its writes, Owners the owner of each CPU.
package preview
