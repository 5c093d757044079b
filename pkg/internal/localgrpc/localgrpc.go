// Package localgrpc is the common code of clients of gRPC services on this machine:
// the connection, and errors for decisions of callers.
package localgrpc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// window is the maximum of a reply that gRPC receives before the client asks for the reply,
	// in bytes. It is the minimum in grpc-go. gRPC extends it for a reply in progress.
	window = 64 << 10
	// connWindow is the maximum of all replies that the service sends without a notice of gRPC that
	// they have arrived, in bytes.
	connWindow = 1 << 20
)

// Dial returns a connection to the service at socket, an absolute path, that takes
// replies of up to maxMessage bytes. It decodes the part of a reply that trim returns; nil
// decodes all replies in whole. Dial does not connect: the first call does, and a lost
// connection is made again in the background.
func Dial(socket string, maxMessage int, trim Trim) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newCodec(trim))),
		// By default, gRPC receives up to 16 MiB of each reply before the client asks for it, and
		// before it compares the size with maxMessage (grpc-go 1.85, bdpLimit).
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(connWindow),
		// gRPC's own limit is two minutes, during which every call would fail
		// although the service is back. A local socket can be tried often.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  100 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   2 * time.Second,
			},
			MinConnectTimeout: 2 * time.Second,
		}))
}

// Error replaces the status codes of kinds by their errors, and a status that the caller's own
// context has caused by the context's error. The text of the service is kept. An error without a status is returned as it is.
func Error(err error, kinds map[codes.Code]error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	kind := kinds[s.Code()]
	switch {
	case kind != nil:
	case s.Code() == codes.DeadlineExceeded:
		kind = context.DeadlineExceeded
	case s.Code() == codes.Canceled:
		kind = context.Canceled
	default:
		// A runtime passes on what runc prints, with its line ends.
		return status.Error(s.Code(), strings.TrimSpace(s.Message()))
	}
	if s.Message() == kind.Error() {
		return kind
	}
	return fmt.Errorf("%w: %s", kind, s.Message())
}
