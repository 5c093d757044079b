package threads

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

const (
	// turnCgroups is the work of one turn in cgroups: some milliseconds.
	turnCgroups = 256
	// turnPause is the pause after a turn, as a multiple of its duration. So the scanner uses at most a fifth of a CPU.
	turnPause = 4
	// scanPause is the pause between scans of one cgroup, as a multiple of the time that the turns of the scan took.
	scanPause = 10
	// maxOpen is the maximum number of scans that have begun. Each keeps at most 130 directories open.
	maxOpen = 8
	// maxRepeats is the number of scans in succession that find threads to move, after which the cgroup is reported.
	// A thread that is forked by one outside can be outside as well, and each scan ends such a line.
	maxRepeats = 16
)

// errRestless is the error of a cgroup in which threads appear outside of its CPUs again and again.
var errRestless = errors.New("threads appear outside of their CPUs in each scan; a process writes cpusets or moves threads without pause")

// Found is the result of one scan.
type Found struct {
	Path cgroup.Path
	cgroup.Gathered
}

// Scan is one reading of all threads of a cgroup, in turns (see [cgroup.ThreadScan]).
type Scan interface {
	// Next goes on for the work of n cgroups, and reports whether the scan is over.
	Next(ctx context.Context, n int) bool
	// Found returns the result.
	Found() cgroup.Gathered
	// Close releases files.
	Close()
}

// Scanner scans cgroups on request. Submit can be called by any goroutine, Run by one.
type Scanner struct {
	wake chan struct{} // holds one token after Submit

	mu   sync.Mutex // guards jobs
	jobs []*job     // in the order of their next turns
}

type job struct {
	path      cgroup.Path
	submitted bool          // since the scan began
	scan      Scan          // nil before the first turn
	took      time.Duration // the turns of the scan
	due       time.Time     // the earliest begin of the next scan
	repeats   int           // scans in succession that have moved threads
}

// New returns a scanner without requests.
func New() *Scanner { return &Scanner{wake: make(chan struct{}, 1)} }

// Submit requests a scan of a cgroup. A scan that has begun is followed by another one.
func (s *Scanner) Submit(p cgroup.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.jobs, func(j *job) bool { return j.path == p })
	if i < 0 {
		i = len(s.jobs)
		s.jobs = append(s.jobs, &job{path: p})
	}
	s.jobs[i].submitted = true
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run posts the result of each scan until ctx ends; empty for a cgroup that is gone.
func (s *Scanner) Run(ctx context.Context, open func(cgroup.Path) Scan, post func(Found)) {
	defer s.close()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		j, wait := s.next(time.Now())
		if j != nil {
			wait = s.turn(ctx, j, open, post)
		}
		pause.Reset(wait)
		wake := s.wake
		if j != nil {
			wake = nil // the pause after a turn is for all
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-wake:
		}
	}
}

const idleWait = time.Hour

// next returns the job of the next turn, and puts it behind the others. Without one it returns the time until a job is due.
// It drops jobs that are over.
func (s *Scanner) next(now time.Time) (j *job, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs = slices.DeleteFunc(s.jobs, func(j *job) bool { return !j.submitted && j.scan == nil && !now.Before(j.due) })
	open := 0
	for _, j := range s.jobs {
		if j.scan != nil {
			open++
		}
	}
	wait = idleWait
	for i, j := range s.jobs {
		switch {
		case j.scan == nil && now.Before(j.due):
			wait = min(wait, j.due.Sub(now))
			continue
		case j.scan == nil && open >= maxOpen:
			continue
		}
		s.jobs = append(slices.Delete(s.jobs, i, i+1), j)
		return j, 0
	}
	return nil, wait
}

// turn makes one turn of a job, and returns the pause after it.
func (s *Scanner) turn(ctx context.Context, j *job, open func(cgroup.Path) Scan, post func(Found)) time.Duration {
	began := time.Now()
	if j.scan == nil {
		s.mu.Lock()
		j.submitted, j.scan, j.took = false, open(j.path), 0
		s.mu.Unlock()
	}
	done := j.scan.Next(ctx, turnCgroups)
	took := time.Since(began)
	j.took += took
	if !done || ctx.Err() != nil {
		return turnPause * took
	}
	found := j.scan.Found()
	j.scan.Close()
	s.mu.Lock()
	j.scan, j.due = nil, began.Add(took+scanPause*j.took)
	if j.repeats++; found.Back == 0 {
		j.repeats = 0
	}
	j.submitted = j.submitted || found.Back > 0
	s.mu.Unlock()
	if j.repeats >= maxRepeats && found.UnreadErr == nil {
		found.Unread, found.UnreadErr = 1, errRestless
	}
	post(Found{j.path, found})
	return turnPause * took
}

func (s *Scanner) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.scan != nil {
			j.scan.Close()
			j.scan = nil
		}
	}
}
