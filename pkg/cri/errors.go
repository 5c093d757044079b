package cri

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
)

// Errors for decisions of callers. The errors of this package wrap these.
var (
	// ErrNotFound means that the runtime does not know the pod or container, or no longer
	// knows it.
	ErrNotFound = errors.New("not found")
	// ErrNotRunning means that the container exists, but has exited.
	ErrNotRunning = errors.New("not running")
	// ErrNotSupported means that this runtime does not have the call.
	ErrNotSupported = errors.New("not supported by the runtime")
	// ErrUnavailable means that no runtime answers: it is stopped, or it restarts.
	ErrUnavailable = errors.New("the runtime does not answer")
)

// InfoError means that the verbose part of a status, which CRI does not specify,
// is missing or malformed. The Pod or Container that comes with it is valid; fields that
// could not be read are zero.
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

// fromGRPC replaces the status codes that callers decide on by the errors of this
// package.
func fromGRPC(err error) error {
	return localgrpc.Error(err, map[codes.Code]error{
		codes.NotFound: ErrNotFound, codes.Unimplemented: ErrNotSupported, codes.Unavailable: ErrUnavailable,
	})
}
