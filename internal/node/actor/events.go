package actor

// Event is something that the owner has to know. Every event is a hint or the
// result of a job; losing any source costs latency and never correctness.
type Event any
