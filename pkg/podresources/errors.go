package podresources

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What callers decide on. The errors of List wrap these.
var (
	// ErrUnavailable means that nobody answers: there is no socket, or no kubelet
	// behind it (any more). It may come back.
	ErrUnavailable = errors.New("the kubelet does not answer")
	// ErrNotSupported means that this kubelet does not have the call (before 1.20,
	// or what listens is no kubelet).
	ErrNotSupported = errors.New("not supported by the kubelet")
)

// fromGRPC replaces the status codes that callers decide on by the errors of this
// package, and those that the caller's own context has caused by the context's
// errors. What gRPC says about it is kept.
func fromGRPC(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	var kind error
	switch s.Code() {
	case codes.Unavailable:
		kind = ErrUnavailable
	case codes.Unimplemented:
		kind = ErrNotSupported
	case codes.DeadlineExceeded:
		kind = context.DeadlineExceeded
	case codes.Canceled:
		kind = context.Canceled
	default:
		return err
	}
	if s.Message() == kind.Error() {
		return kind
	}
	return fmt.Errorf("%w: %s", kind, s.Message())
}
