package localgrpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's own, but for replies that have come in pieces. gRPC puts them together
// in a buffer of 1 MiB as soon as they have more than 32 KiB, and a list of 250
// containers has 100: that MiB is garbage after each list.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.NopBufferPool{}) // which allocates what is needed
	defer whole.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// Name has requests say application/grpc, and not application/grpc+proto: CRI-O serves HTTP on
// the same socket, and takes for gRPC what says exactly that.
func (codec) Name() string { return "" }
