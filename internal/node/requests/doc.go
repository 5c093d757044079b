// Package requests holds the requests of the runtime that have no reply yet: creations and
// starts of containers. The event loop decides them. Queue limits their waits, keeps decided
// replies until the journal is on disk, and sends them. A request without a decision stays in
// the queue until the loop decides it or the runtime cancels it.
//
// A reply to a creation can contain updates of other containers. The runtime makes them and
// does not report the result. Queue holds these updates until the daemon has read the
// runtime's record. One goroutine uses a Queue.
package requests
