package localgrpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

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
