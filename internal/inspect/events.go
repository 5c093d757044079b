package inspect

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
)

// Events is the answer to a question about the history.
type Events struct {
	Version int `json:"version"`
	// Started tells one daemon from the next: with another, Seq counts from 1 again.
	Started time.Time `json:"started"`
	// Last is the Seq of the newest event that there is, also of those that were not asked
	// for: ask for what is after it to follow.
	Last uint64 `json:"last"`
	// Dropped counts the events that are not kept any more.
	Dropped uint64          `json:"dropped"`
	Events  []history.Event `json:"events"`
}
