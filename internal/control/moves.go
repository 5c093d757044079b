package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Move requests other exclusive CPUs for an owner, and as many.
type Move struct {
	// PodUID is empty for a systemd unit. Container is then the name of the unit.
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container"`
	// From holds the CPUs when the move was planned. The daemon refuses it after a change.
	From cpuset.Set `json:"from"`
	To   cpuset.Set `json:"to"`
}

// Outcome is the outcome of a move.
type Outcome string

// Outcomes. Refused and Skipped moves change no CPUs.
const (
	// Done means that the kernel reports the new CPUs for the owner.
	Done Outcome = "done"
	// Refused means that the daemon rejected the move.
	Refused Outcome = "refused"
	// Unverified means that the daemon continues the move, which it did not verify in time.
	Unverified Outcome = "unverified"
	// Skipped means that an earlier move of the list was not done.
	Skipped Outcome = "skipped"
)

// Result is a move with its outcome.
type Result struct {
	Move
	Outcome Outcome `json:"outcome"`
	// Detail is the reason why the move is not done; empty if it is done.
	Detail string `json:"detail,omitempty"`
}

const (
	maxBody  = 1 << 20 // bytes
	maxMoves = 4096
	maxName  = 253 // bytes of a UID, and of the name of a container or unit
)

// decodeMoves refuses unknown fields: an older daemon must not carry out a part of a move.
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
		return nil, fmt.Errorf("%d moves; request 1 to %d at once", len(moves), maxMoves)
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
		return errors.New("from is empty; give the current CPUs of the owner")
	case m.To.IsEmpty():
		return errors.New("to is empty; give the new CPUs of the owner")
	}
	return nil
}
