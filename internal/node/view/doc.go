// Package view turns the state of the event loop into documents: status and
// explanations for operators, metrics, the state of the Node, problems and
// history.
//
// A Snapshot is the immutable state after a pass. Answers makes documents of the
// latest Snapshot in the caller's goroutine. Node and Capacity derive values
// from a plan, in the event loop's goroutine; HistoryLog and Writes belong to
// that goroutine. Nothing in this package decides about CPUs.
package view
