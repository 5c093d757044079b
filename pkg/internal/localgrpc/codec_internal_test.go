package localgrpc

import (
	"bytes"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// lent are the buffers of pieces that are to come back.
type lent int

func (lent) Get(length int) *[]byte { b := make([]byte, length); return &b }

func (l *lent) Put(*[]byte) { *l-- }

// pieces are those in which a reply comes.
func (l *lent) pieces(message []byte) mem.BufferSlice { return l.cut(message, 16<<10) }

func (l *lent) cut(message []byte, frame int) (data mem.BufferSlice) {
	for piece := range slices.Chunk(message, frame) {
		if !mem.IsBelowBufferPoolingThreshold(len(piece)) { // others are the collector's
			*l++
		}
		data = append(data, mem.Copy(piece, l))
	}
	return data
}

func TestUnmarshal(t *testing.T) {
	var l lent
	for _, size := range []int{0, 1, 100, 10 << 10, 20 << 10, large - 4, large - 3, 100 << 10, 2 << 20} {
		want := bytes.Repeat([]byte("cpu"), size/3+1)[:size]
		message, err := proto.Marshal(wrapperspb.Bytes(want))
		if err != nil {
			t.Fatal(err)
		}
		data := l.pieces(message)
		var got wrapperspb.BytesValue
		if err := newCodec(nil).Unmarshal(data, &got); err != nil || !bytes.Equal(got.GetValue(), want) {
			t.Errorf("%d bytes: %v, %d bytes", size, err, len(got.GetValue()))
		}
		data.Free() // as gRPC does, after it
		if l != 0 {
			t.Errorf("%d bytes: %d pieces are kept; want 0", size, l)
		}
	}
}

func TestUnmarshalNonsense(t *testing.T) {
	for _, frame := range []int{16 << 10, 64 << 10} { // in pieces, and in one
		var l lent
		data := l.cut(bytes.Repeat([]byte{0xff}, 40<<10), frame)
		if err := newCodec(nil).Unmarshal(data, &wrapperspb.BytesValue{}); err == nil {
			t.Error("nonsense was read")
		}
		data.Free()
		if l != 0 {
			t.Errorf("pieces of %d: %d are kept", frame, l)
		}
	}
}

// plain is codec without gRPC's buffers.
type plain struct{ codec }

func (plain) Marshal(v any) (mem.BufferSlice, error) {
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

// TestDial: a reply takes little memory, and requests name no codec. CRI-O resets connections whose
// requests do.
func TestDial(t *testing.T) {
	var said []string
	server := grpc.NewServer(grpc.ForceServerCodecV2(plain{newCodec(nil)}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		said = md.Get("content-type")
		return stream.SendMsg(wrapperspb.Bytes(make([]byte, 100<<10)))
	}))
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	conn, err := Dial(socket, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	var reply wrapperspb.BytesValue
	runtime.GC()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = conn.Invoke(t.Context(), "/test.Test/List", &wrapperspb.BytesValue{}, &reply)
	if err != nil || len(reply.GetValue()) != 100<<10 {
		t.Errorf("%v, %d bytes; want %d", err, len(reply.GetValue()), 100<<10)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1280<<10 {
		t.Errorf("%d KiB for a reply of 100, and the connection", took>>10)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	server.GracefulStop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if want := []string{"application/grpc"}; !slices.Equal(said, want) {
		t.Errorf("requests say %q, want %q", said, want)
	}
}

// A reply of 30 KiB takes its size once: a buffer that was used before holds its pieces.
func TestUnmarshalUsesBuffersAgain(t *testing.T) {
	message, err := proto.Marshal(wrapperspb.Bytes(make([]byte, 30<<10)))
	if err != nil {
		t.Fatal(err)
	}
	data := new(lent).pieces(message)
	const times = 200
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if err := newCodec(nil).Unmarshal(data, &wrapperspb.BytesValue{}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / times; took > 50<<10 {
		t.Errorf("%d KiB for each reply of 30", took>>10)
	}
}

// A reply of 100 KiB takes its size twice, and not a buffer of 1 MiB, when the pools are empty.
func TestUnmarshalTakesLittle(t *testing.T) {
	message, err := proto.Marshal(wrapperspb.Bytes(make([]byte, 100<<10)))
	if err != nil {
		t.Fatal(err)
	}
	data := new(lent).pieces(message)
	runtime.GC() // a pool keeps what it has for one collection
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := newCodec(nil).Unmarshal(data, &wrapperspb.BytesValue{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 400<<10 {
		t.Errorf("%d KiB for a reply of 100", took>>10)
	}
}

// TestUnmarshalTrimmed checks that the codec decodes what trim returns, decodes other messages
// in whole, and keeps no piece of a message.
func TestUnmarshalTrimmed(t *testing.T) {
	refused := errors.New("refused")
	var l lent
	for name, tt := range map[string]struct {
		trim Trim
		want string
		err  error
	}{
		"a part":  {func(any, *mem.Reader) ([]byte, bool, error) { return encode(t, "part"), true, nil }, "part", nil},
		"nothing": {func(any, *mem.Reader) ([]byte, bool, error) { return nil, true, nil }, "", nil},
		"after some pieces": {func(_ any, r *mem.Reader) ([]byte, bool, error) {
			_, err := r.Discard(40 << 10)
			return encode(t, "rest"), true, err
		}, "rest", nil},
		"another message": {func(any, *mem.Reader) ([]byte, bool, error) { return nil, false, nil }, string(make([]byte, 100<<10)), nil},
		"an error":        {func(any, *mem.Reader) ([]byte, bool, error) { return nil, true, refused }, "", refused},
	} {
		data := l.pieces(encode(t, string(make([]byte, 100<<10))))
		var got wrapperspb.BytesValue
		if err := newCodec(tt.trim).Unmarshal(data, &got); !errors.Is(err, tt.err) || string(got.GetValue()) != tt.want {
			t.Errorf("%s: %v, %d bytes; want %v, %d bytes", name, err, len(got.GetValue()), tt.err, len(tt.want))
		}
		data.Free() // as gRPC does, after it
		if l != 0 {
			t.Errorf("%s: %d pieces are kept; want 0", name, l)
		}
	}
}

// encode returns a message with a value.
func encode(t *testing.T, value string) []byte {
	t.Helper()
	message, err := proto.Marshal(wrapperspb.Bytes([]byte(value)))
	if err != nil {
		t.Fatal(err)
	}
	return message
}
