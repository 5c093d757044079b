package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Move asks for an owner of CPUs to be taken from them to as many others.
type Move struct {
	// PodUID is empty for a systemd unit, and Container is then its name.
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container"`
	// From is what the owner has, so that nobody is moved who has been moved, or
	// has ended, since the move was thought of.
	From cpuset.Set `json:"from"`
	To   cpuset.Set `json:"to"`
}

// Outcome is what became of a move.
type Outcome string

// Outcomes. Only with Done and Unverified anything was changed.
const (
	// Done: the owner runs on the new CPUs, as the kernel says.
	Done Outcome = "done"
	// Refused: nothing was changed.
	Refused Outcome = "refused"
	// Unverified: the move was begun and could not be verified in time. The daemon
	// goes on with it.
	Unverified Outcome = "unverified"
	// Skipped: a move before it in the list was not done.
	Skipped Outcome = "skipped"
)

// Result is a move with what became of it.
type Result struct {
	Move
	Outcome Outcome `json:"outcome"`
	// Detail says why it is not done.
	Detail string `json:"detail,omitempty"`
}

// Limits of a request.
const (
	maxBody  = 1 << 20 // bytes
	maxMoves = 4096
	maxName  = 253 // bytes of a UID and of a container's or unit's name
)

// decodeMoves reads the body of a request, strictly: a move that is only half
// understood is worse than none.
func decodeMoves(body []byte) ([]Move, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var moves []Move
	if err := d.Decode(&moves); err != nil {
		return nil, fmt.Errorf("decode moves: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode moves: something follows the list")
	}
	if len(moves) == 0 || len(moves) > maxMoves {
		return nil, fmt.Errorf("%d moves; ask for 1 to %d at once", len(moves), maxMoves)
	}
	for i, m := range moves {
		if err := m.validate(); err != nil {
			return nil, fmt.Errorf("move %d: %w", i+1, err)
		}
	}
	return moves, nil
}

func (m Move) validate() error {
	switch {
	case m.Container == "":
		return errors.New("container is empty; name a container, or without podUID a systemd unit")
	case len(m.PodUID) > maxName || len(m.Container) > maxName:
		return fmt.Errorf("podUID or container is longer than %d bytes", maxName)
	case m.From.IsEmpty():
		return errors.New("from is empty; say which CPUs the owner has")
	case m.To.IsEmpty():
		return errors.New("to is empty; say which CPUs it is to have")
	}
	return nil
}
