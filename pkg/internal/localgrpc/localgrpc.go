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
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
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

// Trim returns the part of a message that its receiver uses, encoded like the message. If
// trimmed is false, the receiver uses the whole message and from was not read.
type Trim func(reply any, from *mem.Reader) (message []byte, trimmed bool, err error)

// codec is gRPC's codec with two changes for replies. It decodes only the part that trim
// returns. It also avoids gRPC's large buffers: gRPC copies the pieces of a message of more
// than 32 KiB into a buffer of 1 MiB. A list of 250 containers has 100 KiB, and that MiB
// is garbage after each list.
type codec struct {
	encoding.CodecV2
	trim Trim // nil: replies are decoded in whole
}

// large is the size, in bytes, above which gRPC's buffers have 1 MiB. Smaller buffers are used again.
const large = 32 << 10

func newCodec(trim Trim) codec { return codec{encoding.GetCodecV2(proto.Name), trim} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if c.trim != nil {
		r := data.Reader()
		part, trimmed, err := c.trim(v, r)
		_ = r.Close() // never fails
		switch {
		case err != nil:
			return err
		case trimmed:
			return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(part)}, v)
		}
	}
	if data.Len() <= large {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.NopBufferPool{}) // allocates the size of the message
	defer whole.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// Name returns an empty name, so that requests have the content type application/grpc and
// not application/grpc+proto. CRI-O serves HTTP on the same socket, and only the first type
// is gRPC for it.
func (codec) Name() string { return "" }
