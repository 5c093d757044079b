package localgrpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's own, but for large replies. gRPC puts together what has come in pieces
// in a buffer of 1 MiB as soon as it has more than 32 KiB, and a list of 250
// containers has 100: that MiB is garbage after each list.
type codec struct{ encoding.CodecV2 }

// large is the size, in bytes, above which gRPC's buffers have 1 MiB. Smaller ones are used again.
const large = 32 << 10

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if data.Len() <= large {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.NopBufferPool{}) // which allocates what is needed
	defer whole.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// Name has requests say application/grpc, and not application/grpc+proto: CRI-O serves HTTP on
// the same socket, and takes for gRPC what says exactly that.
func (codec) Name() string { return "" }
