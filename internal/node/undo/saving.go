package undo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Saving
//
// A worker saves the journal. Changes are counted: a save carries all changes up to a
// number, and at most one save is in progress. Writes wait until the original values that
// they replace survive the daemon: in the recent file, or on disk. A disk that fails or hangs
// must not keep containers on the wrong CPUs: then writes stop waiting, and a problem reports
// that restore may not know every original.

const codeNotWritten pools.Code = "JournalNotWritten"

const savePause = 5 * time.Second

// lastSaveTimeout is the maximum time of SaveLast. A disk that hangs must not keep the process.
const lastSaveTimeout = 2 * time.Second

var errSlowDisk = errors.New("the disk does not answer")

type saving struct {
	changes int // newest change
	sent    int // newest change in the last save
	durable int // newest change on disk
	kept    int // newest change in the recent file or on disk
	barrier int // newest change that writes wait for

	based bool      // the document on disk is known, so the recent file can extend it.
	stale bool      // the file contains dropped originals
	late  error     // why nothing waits for the disk.
	retry time.Time // end of the pause after a failure
}

// Safe reports whether every original survives the daemon.
func (s *saving) Safe() bool { return s.kept >= s.barrier }

// Blocks reports whether writes must wait for originals, and the disk still has time.
func (s *saving) Blocks() bool { return s.MustWait(s.barrier) }

// Newest returns the number of the newest change.
func (s *saving) Newest() int { return s.changes }

// MustWait reports whether a reply must wait for changes, and the disk still has time.
func (s *saving) MustWait(change int) bool { return s.kept < change && s.late == nil }

// IsSaved reports whether a change is on disk.
func (s *saving) IsSaved(change int) bool { return s.durable >= change }

// Late returns why nothing waits for the disk, or nil.
func (s *saving) Late() error { return s.late }

// Pending reports whether any change is not on disk.
func (s *saving) Pending() bool { return s.changes != s.durable }

// NextRetry returns the end of the pause after a failed save.
func (s *saving) NextRetry() time.Time { return s.retry }

// BeginSave returns the document to save and the number of its newest change. It reports
// false if nothing has changed, a save is in progress, or the pause after a failed save
// lasts.
func (j *Journal) BeginSave(now time.Time) (d Document, upTo int, due bool) {
	if j.sent > j.durable || !j.Pending() || now.Before(j.retry) {
		return Document{}, 0, false
	}
	j.sent, j.stale = j.changes, false
	return j.document(), j.changes, true
}

// EndSave takes the result of the save of all changes up to a number.
func (j *Journal) EndSave(upTo int, err error, now time.Time) {
	if err != nil {
		j.sent = j.durable
		j.late, j.retry = err, now.Add(savePause)
		return
	}
	j.durable, j.kept, j.based = upTo, max(j.kept, upTo), upTo > 0
	maps.DeleteFunc(j.Originals.recent, func(_ Key, change int) bool { return change <= upTo })
	if j.durable >= j.barrier {
		j.late = nil
	}
}

// StopWaiting lets writes go ahead, because the disk has not answered in time.
func (s *saving) StopWaiting() { s.late = errSlowDisk }

// Problems returns a problem if the disk is late: restore may not know every original, or new
// originals would not survive a lost runDir.
func (s *saving) Problems(file string) []pools.Problem {
	if s.late == nil {
		return nil
	}
	effect := "`cpupoold restore` may not know every original until then"
	if s.Safe() {
		effect = "until then new originals are in runDir alone, and ResourceClaims wait"
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeNotWritten, Text: fmt.Sprintf(
		"journal %s: %s; %s. Make room on the disk, or repair it", file, s.late, effect)}}}
}

// SaveLast saves the changes that are not on disk when the loop has ended: an older daemon that starts
// next does not read the recent file.
func (j *Journal) SaveLast(h *hostenv.Host) error {
	if h.Observes || !j.Pending() {
		return nil
	}
	ended, d := make(chan error, 1), j.document()
	go func() { ended <- File{h.JournalFile, h.RunDir}.Save(d) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(lastSaveTimeout):
		return errSlowDisk
	}
}

// document returns a copy for a worker; its originals are in no order.
func (j *Journal) document() Document {
	d := j.facts
	d.Change = j.changes
	d.Originals = slices.AppendSeq(make([]Original, 0, len(j.Originals.values)), maps.Values(j.Originals.values))
	d.Assignments = append([]pools.Assignment{}, d.Assignments...)
	d.Unhinted, d.Others, d.Claims = slices.Clone(d.Unhinted), slices.Clone(d.Others), slices.Clone(d.Claims)
	return d
}
