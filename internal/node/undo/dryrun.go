package undo

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// Peek reads the journal of this boot without setting a bad one aside.
func Peek(name string) (Document, error) {
	bootID, err := ReadBootID()
	if err != nil {
		return Document{}, err
	}
	b, err := durable.Read(name, journalLimit)
	if err != nil {
		return Document{BootID: bootID}, IgnoreMissing(err)
	}
	j, err := Decode(b)
	if err != nil {
		return Document{BootID: bootID}, fmt.Errorf("%s: %w", name, err)
	}
	return j.of(bootID), nil
}

func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
