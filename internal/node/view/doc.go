// Package view turns the state of the loop into documents. Snapshot is an
// immutable copy that the loop publishes after each pass; Answers serves status
// and explanations from the latest Snapshot, on the caller's goroutine.
// HistoryLog records decisions and writes.
package view
