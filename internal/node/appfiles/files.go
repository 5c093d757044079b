// Package appfiles decides when the files for applications are written, and with which CPUs. A
// worker writes them with package appcpus. One goroutine uses a [Files].
package appfiles

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// retryDelay is the delay after a failed write of the files.
const retryDelay = 10 * time.Second

// codeFileFault is the code of the problem that another program has changed a file for
// applications, or that it cannot be written.
const codeFileFault pools.Code = "ApplicationFileFault"

// Timeout is the maximum time for which a write of the files keeps the daemon from being
// ready. A container that waits for the daemon then starts without its files. After that time
// the source is lost.
const Timeout = 2 * time.Second

// Sources are the values that a [Files] reads.
type Sources struct {
	Settings *desired.Settings
	Objects  *inventory.Objects
	Cache    *kernelstate.Cache
	Log      *slog.Logger
	CRIO     bool // the runtime is CRI-O
}

// Files holds the files from which applications read their CPUs.
type Files struct {
	Sources
	write   func(entries []appcpus.Entry, whole bool) appcpus.Result // runs in a worker; nil: no files
	entries []appcpus.Entry                                          // of the last pass
	done    bool                                                     // the files of entries are written
	check   bool                                                     // the next job compares all files with the disk
	busy    bool
	began   time.Time // when the current job was submitted
	retry   time.Time // the next comparison after an error; zero: none
	result  appcpus.Result
}

// New returns the files that write writes. Without write there are no files.
func New(s Sources, write func(entries []appcpus.Entry, whole bool) appcpus.Result) *Files {
	return &Files{Sources: s, write: write}
}

// Recheck makes the next job compare all files with the disk.
func (f *Files) Recheck() { f.check = true }

// Retry returns the time of the next comparison after an error, or the zero time.
func (f *Files) Retry() time.Time { return f.retry }

// Due returns the end of the Timeout of the current job, or the zero time without one.
func (f *Files) Due() time.Time {
	if !f.busy {
		return time.Time{}
	}
	return f.began.Add(Timeout)
}

// State returns the state of the files as a source, and whether there are files.
func (f *Files) State(now time.Time) (telemetry.SourceState, bool) {
	if f.busy && !now.Before(f.Due()) || f.result.Err != nil {
		return telemetry.SourceLost, true
	}
	return telemetry.SourceOK, f.write != nil
}

// Write returns the job that writes the files of a plan if they have changed, or if a comparison
// is due. Otherwise it returns nil.
func (f *Files) Write(plan *pools.Plan, targets []cgroup.Target, now time.Time) func() appcpus.Result {
	if f.write == nil {
		return nil
	}
	entries := f.entriesOf(plan, targets)
	whole := f.check || !f.retry.IsZero() && !now.Before(f.retry)
	if f.done && !whole && f.isMadeOf(entries) {
		return nil // in nearly all passes
	}
	f.done = false
	if f.busy || f.result.Err != nil && now.Before(f.retry) {
		return nil // a fault of one pod does not delay the files of others
	}
	made := slices.AppendSeq(make([]appcpus.Entry, 0, len(f.entries)+1), entries) // usually at most one more than before
	f.entries, f.done, f.busy, f.began = made, true, true, now
	if whole {
		f.check, f.retry = false, time.Time{}
	}
	return func() appcpus.Result { return f.write(made, whole) }
}

// ChangesNothing reports whether nothing that the daemon shows changes with the result of a job.
func (f *Files) ChangesNothing(r appcpus.Result, now time.Time) bool {
	return f.done && r.Err == nil && !r.Again && len(r.Faults)+len(f.result.Faults) == 0 && f.result.Err == nil &&
		now.Before(f.Due()) // a later result ends the loss of the source
}

// Take takes the result of a job.
func (f *Files) Take(r appcpus.Result, now time.Time) {
	if err, before := errors.Join(r.Err, r.Leftover), errors.Join(f.result.Err, f.result.Leftover); err != nil && fmt.Sprint(err) != fmt.Sprint(before) {
		f.Log.Error("write files for applications", "error", err)
	}
	f.busy, f.result = false, r
	if r.Again && f.retry.IsZero() {
		f.retry = now.Add(retryDelay)
	}
}

// Problems returns the faults of the files.
func (f *Files) Problems() []pools.Problem {
	var all []pools.Problem
	for _, f := range f.result.Faults {
		all = append(all, pools.Problem{PodUID: f.Entry.PodUID, Pod: f.Entry.Pod, Container: f.Entry.Container, Unit: f.Entry.Unit,
			Reason: pools.Reason{Code: codeFileFault, Text: f.Text}})
	}
	return all
}
