// Package soakstate keeps the results of TestSoak's kills in a file, so that an interrupted run
// can continue.
package soakstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/observer"
)

// Progress holds the results of one run of the guest test until now.
type Progress struct {
	Kills  int             `json:"kills"`
	Report observer.Report `json:"report"`
}

// plus returns the sum of the progress of two runs.
func (p Progress) plus(other Progress) Progress {
	return Progress{Kills: p.Kills + other.Kills, Report: p.Report.Plus(other.Report)}
}

// State holds the progress of all runs, by container runtime and kind of pool. It belongs to one
// seed.
type State struct {
	Seed     uint64              `json:"seed"`
	Progress map[string]Progress `json:"progress"`

	file   string
	before map[string]Progress // of earlier runs
}

// Load reads the state from a file, or returns an empty one without a file. It returns an error if
// the file belongs to another seed.
func Load(file string, seed uint64) (*State, error) {
	s := &State{Seed: seed, Progress: make(map[string]Progress), file: file}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, s); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		if s.Seed != seed {
			return nil, fmt.Errorf("continue %s: it belongs to seed %d, not %d; remove it or use its seed", file, s.Seed, seed)
		}
	}
	s.before = maps.Clone(s.Progress)
	return s, nil
}

// Record adds the progress of the present run of a row to that of earlier runs, and writes the
// file.
func (s *State) Record(row string, now Progress) error {
	s.Progress[row] = s.before[row].plus(now)
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	temp := s.file + ".new" // a run that is killed leaves a complete file
	if err := os.WriteFile(temp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, s.file)
}

// Excess returns the overlaps that docs/explanation/isolation.md does not allow.
func (s *State) Excess() (all []string) {
	for _, row := range slices.Sorted(maps.Keys(s.Progress)) {
		for _, excess := range s.Progress[row].Report.Excess() {
			all = append(all, row+": "+excess)
		}
	}
	return all
}

// Table returns the results as a Markdown table: a line for each row and cause.
func (s *State) Table() string {
	var b strings.Builder
	b.WriteString("| runtime, pool | kills | rounds/s | longest round | cause | overlaps | longest |\n|---|---|---|---|---|---|---|\n")
	for _, row := range slices.Sorted(maps.Keys(s.Progress)) {
		p := s.Progress[row]
		r := p.Report
		head := fmt.Sprintf("| %s | %d | %.0f | %v |", row, p.Kills, r.Rate(), r.MaxRound.Round(time.Millisecond))
		if len(r.Overlaps) == 0 {
			fmt.Fprintf(&b, "%s none | 0 | |\n", head)
		}
		for _, cause := range slices.Sorted(maps.Keys(r.Overlaps)) {
			o := r.Overlaps[cause]
			fmt.Fprintf(&b, "%s %s | %d | %v |\n", head, cause, o.Count, o.Longest.Round(time.Millisecond))
		}
	}
	return b.String()
}
