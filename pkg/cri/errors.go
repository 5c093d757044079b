package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What callers decide on. The errors of this package wrap these.
var (
	// ErrNotFound means that the runtime does not know the pod or container (any
	// more).
	ErrNotFound = errors.New("not found")
	// ErrNotRunning means that the container exists, but has exited.
	ErrNotRunning = errors.New("not running")
	// ErrNotSupported means that this runtime does not have the call.
	ErrNotSupported = errors.New("not supported by the runtime")
)

// InfoError says that the verbose part of a status, which CRI does not specify,
// is missing or garbled. The Pod or Container that comes with it is valid: what
// could be read is there, and what could not is zero.
type InfoError struct {
	Kind  string // "pod" or "container"
	ID    string
	Field string // path in the info document, such as runtimeSpec.linux.cgroupsPath
	Err   error
}

func (e *InfoError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("read verbose info of %s %s: %v", e.Kind, e.ID, e.Err)
	}
	return fmt.Sprintf("read %s in verbose info of %s %s: %v", e.Field, e.Kind, e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *InfoError) Unwrap() error { return e.Err }

// fromGRPC replaces the status codes that callers decide on by the errors of
// this package, and those that the caller's own context has caused by the
// context's errors. The runtime's words are kept.
func fromGRPC(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	var kind error
	switch s.Code() {
	case codes.NotFound:
		kind = ErrNotFound
	case codes.Unimplemented:
		kind = ErrNotSupported
	case codes.DeadlineExceeded:
		kind = context.DeadlineExceeded
	case codes.Canceled:
		kind = context.Canceled
	default:
		// The runtime passes on what runc prints, with its line ends.
		return status.Error(s.Code(), strings.TrimSpace(s.Message()))
	}
	if s.Message() == kind.Error() {
		return kind
	}
	return fmt.Errorf("%w: %s", kind, s.Message())
}
