// Package actor carries work between the event loop and other goroutines. A
// Mailbox holds events for the loop; posting never waits. WorkerSets run slow
// calls (the runtime, systemd, the disk) and post their results as events.
// KeepTrying repeats a watch that ends with errors. The package knows no pods and no cgroups.
package actor
