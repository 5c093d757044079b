// Package preview reports what the daemon would do, without a daemon and without a write.
//
// DryRun reads the node once, decides as a daemon that starts now does, and returns the plan
// and its writes. Owners returns the owner of each CPU by the same decision, and Exclusive the
// owners of exclusive CPUs. Presume returns the originals to restore after a journal was lost.
// A daemon may run at the same time.
//
// The package keeps no state: each call reads the node again.
package preview
