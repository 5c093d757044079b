package undo

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// peekJournal reads the journal of this boot without setting a bad one aside.
func PeekJournal(name string) (Journal, error) {
	bootID, err := ReadBootID()
	if err != nil {
		return Journal{}, err
	}
	b, err := durable.Read(name, journalLimit)
	if err != nil {
		return Journal{BootID: bootID}, IgnoreMissing(err)
	}
	j, err := DecodeJournal(b)
	if err != nil {
		return Journal{BootID: bootID}, fmt.Errorf("%s: %w", name, err)
	}
	return j.of(bootID), nil
}

func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
