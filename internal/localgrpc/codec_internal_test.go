package localgrpc

import (
	"bytes"
	"runtime"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// pieces are those in which a reply comes.
func pieces(message []byte) (data mem.BufferSlice) {
	const frame = 16 << 10
	for len(message) > 0 {
		n := min(frame, len(message))
		data = append(data, mem.SliceBuffer(message[:n]))
		message = message[n:]
	}
	return data
}

func TestUnmarshal(t *testing.T) {
	for _, size := range []int{0, 1, 100, 16 << 10, 100 << 10, 2 << 20} {
		want := bytes.Repeat([]byte("cpu"), size/3+1)[:size]
		message, err := proto.Marshal(wrapperspb.Bytes(want))
		if err != nil {
			t.Fatal(err)
		}
		var got wrapperspb.BytesValue
		if err := newCodec().Unmarshal(pieces(message), &got); err != nil || !bytes.Equal(got.GetValue(), want) {
			t.Errorf("%d bytes: %v, %d bytes", size, err, len(got.GetValue()))
		}
	}
	if err := newCodec().Unmarshal(pieces(bytes.Repeat([]byte{0xff}, 40<<10)), &wrapperspb.BytesValue{}); err == nil {
		t.Error("nonsense was read")
	}
}

// A reply of 100 KiB takes its size twice, and not a buffer of 1 MiB, when the pools are empty.
func TestUnmarshalTakesLittle(t *testing.T) {
	message, err := proto.Marshal(wrapperspb.Bytes(make([]byte, 100<<10)))
	if err != nil {
		t.Fatal(err)
	}
	data := pieces(message)
	runtime.GC() // a pool keeps what it has for one collection
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := newCodec().Unmarshal(data, &wrapperspb.BytesValue{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 400<<10 {
		t.Errorf("%d KiB for a reply of 100", took>>10)
	}
}
