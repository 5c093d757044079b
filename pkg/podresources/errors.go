package podresources

import (
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/cpupoold/cpupoold/pkg/internal/localgrpc"
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
// package.
func fromGRPC(err error) error {
	return localgrpc.Error(err, map[codes.Code]error{codes.Unavailable: ErrUnavailable, codes.Unimplemented: ErrNotSupported})
}
