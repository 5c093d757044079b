package daemon

// event is news for the loop. Every event is a hint or the result of a job: losing any
// source of events costs time and never correctness.
type event interface {
	// apply records the event in the loop's state.
	apply(l *Loop)
}

// scoped is an event that can need less than a full pass.
type scoped interface {
	// scope returns the pass that the event needs. The loop calls it before apply.
	scope(l *Loop) scope
}

// ownResult is an event that reports on the daemon's own work, from which nothing new
// about the kubelet's CPUs can follow.
type ownResult interface {
	event
	ownResult()
}

// scope is the part of the node that an event can concern.
type scope int

const (
	scopeNone   scope = iota // no pass is needed
	scopeAnswer              // no input of the plan
	scopeOne                 // at most its pod or cgroup
	scopeAll                 // any pod or cgroup
)

// oneUnless returns scopeAll if all is true, else scopeOne.
func oneUnless(all bool) scope {
	if all {
		return scopeAll
	}
	return scopeOne
}
