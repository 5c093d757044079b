package cri

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/internal/bounded"
)

// The replies of a runtime contain all annotations and labels, the mounts and the images of
// all pods and containers. The annotations of one pod can have 256 KiB. So the client reads
// a message from the pieces in which gRPC received it, and decodes only the fields that this
// package uses. The pieces, these fields and the largest of them are all the memory that a reply
// takes.

// use is how the client uses a field of a message.
type use uint8

const (
	unused   use = iota
	whole        // decode the field
	entries      // a map: decode the entries with wanted keys
	message      // decode the used fields of the message in it
	document     // decode a document
)

// fields holds the uses of the fields of a message by their numbers in k8s.io/cri-api,
// runtime/v1/api.proto.
type fields [17]use

func (f *fields) use(n protowire.Number) use {
	if int(n) < len(f) {
		return f[n]
	}
	return unused
}

// fieldsOf returns the used fields of a reply and of the message in it. It returns false if the client
// decodes the whole reply.
func fieldsOf(reply any) (all, inner fields, ok bool) {
	switch reply.(type) {
	case *runtime.ListPodSandboxResponse, *runtime.StreamPodSandboxesResponse:
		// items: id, metadata, state, created_at, annotations and runtime_handler
		return fields{1: message}, fields{1: whole, 2: whole, 3: whole, 4: whole, 6: entries, 7: whole}, true
	case *runtime.ListContainersResponse, *runtime.StreamContainersResponse:
		// items: id, pod_sandbox_id, metadata, state and created_at
		return fields{1: message}, fields{1: whole, 2: whole, 3: whole, 6: whole, 7: whole}, true
	case *runtime.PodSandboxStatusResponse:
		// info, and status: id, metadata, state, created_at, annotations and runtime_handler
		return fields{1: message, 2: document}, fields{1: whole, 2: whole, 3: whole, 4: whole, 8: entries, 9: whole}, true
	case *runtime.ContainerStatusResponse:
		// info, and status: id, metadata, state, created_at, finished_at and resources
		return fields{1: message, 2: document}, fields{1: whole, 2: whole, 3: whole, 4: whole, 6: whole, 16: whole}, true
	case *runtime.ContainerEventResponse:
		// container_id, container_event_type, created_at, pod_sandbox_status; id
		return fields{1: whole, 2: whole, 3: whole, 4: message}, fields{1: whole}, true
	}
	return all, inner, false
}

// trim implements localgrpc.Trim. keep reports whether an annotation with this key is wanted.
func trim(reply any, from *mem.Reader, keep func(key string) bool) (message []byte, trimmed bool, err error) {
	all, inner, ok := fieldsOf(reply)
	if !ok {
		return nil, false, nil
	}
	t := trimmer{from: from, keep: keep, inner: inner}
	for t.from.Remaining() > 0 {
		if err := t.field(&all); err != nil {
			return nil, true, fmt.Errorf("read reply: %w", err)
		}
	}
	return t.out, true, nil
}

// trimmer copies the used parts of a message.
type trimmer struct {
	from  *mem.Reader
	keep  func(key string) bool
	inner fields // of the message in the reply
	out   []byte
	part  []byte // the field that was read last
}

func (t *trimmer) field(of *fields) error {
	tag, size, err := t.tag(0)
	if err != nil {
		return err
	}
	number, kind := protowire.DecodeTag(tag)
	how := of.use(number)
	switch {
	case kind == protowire.VarintType:
		v, err := t.varint()
		if how != unused {
			t.out = protowire.AppendVarint(protowire.AppendVarint(t.out, tag), v)
		}
		return err
	case how == unused:
		_, err := t.from.Discard(size)
		return err
	case how == document && kind == protowire.BytesType:
		return t.info(tag, size)
	}
	if err := t.read(size); err != nil {
		return err
	}
	t.out = protowire.AppendVarint(t.out, tag)
	switch {
	case kind != protowire.BytesType:
		t.out = append(t.out, t.part...)
	case how == message:
		fields, err := t.fields(t.part)
		if err != nil {
			return err
		}
		t.out = protowire.AppendBytes(t.out, fields)
	default:
		t.out = protowire.AppendBytes(t.out, t.part)
	}
	return nil
}

// tag reads a tag, and returns the size of the field after it: 0 for a number. A field that
// reaches into the last end bytes of the reply is an error.
func (t *trimmer) tag(end int) (tag uint64, size int, err error) {
	if tag, err = t.varint(); err != nil {
		return 0, 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if number < protowire.MinValidNumber {
		return 0, 0, fmt.Errorf("field number of tag %d is invalid", tag)
	}
	var n uint64
	switch kind {
	case protowire.VarintType:
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		n, err = t.varint()
	default:
		err = fmt.Errorf("field %d has wire type %d", number, kind) // CRI has no groups
	}
	if left := t.from.Remaining() - end; err == nil && (left < 0 || n > uint64(left)) {
		err = io.ErrUnexpectedEOF
	}
	return tag, int(n), err
}

func (t *trimmer) read(size int) error {
	t.part = slices.Grow(t.part[:0], size)[:size]
	if _, err := io.ReadFull(t.from, t.part); err != nil && size > 0 {
		return err
	}
	return nil
}

// info reads an entry of size bytes in the map of a verbose status. Runtimes send one entry,
// with the key infoKey.
func (t *trimmer) info(tag uint64, size int) error {
	end := t.from.Remaining() - size
	isInfo, value := false, []byte(nil)
	for t.from.Remaining() > end { // the last key and value count
		field, size, err := t.tag(end)
		if err != nil {
			return err
		}
		after := t.from.Remaining() - size
		switch number, kind := protowire.DecodeTag(field); {
		case kind == protowire.VarintType:
			if _, err := t.varint(); err != nil {
				return err
			}
			after = t.from.Remaining()
		case number == 1 && kind == protowire.BytesType:
			if isInfo = size == len(infoKey); isInfo {
				if err := t.read(size); err != nil {
					return err
				}
				isInfo = string(t.part) == infoKey
			}
		case number == 2 && kind == protowire.BytesType:
			if value = nil; size > 0 {
				value = trimDocument(io.LimitReader(t.from, int64(size)))
			}
		}
		if _, err := t.from.Discard(t.from.Remaining() - after); err != nil {
			return err
		}
	}
	if t.from.Remaining() < end {
		return io.ErrUnexpectedEOF
	}
	if isInfo {
		t.out = appendEntry(t.out, protowire.AppendVarint(nil, tag), infoKey, string(value))
	}
	return nil
}

// varint reads a number of up to ten bytes.
func (t *trimmer) varint() (uint64, error) {
	v, err := binary.ReadUvarint(t.from)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return v, err
}

// fields returns the used fields of a message, in the memory of the message.
func (t *trimmer) fields(m []byte) ([]byte, error) {
	kept := m[:0]
	annotations := make(map[string]string)
	var tag []byte // of the annotations
	for len(m) > 0 {
		number, kind, size := protowire.ConsumeField(m)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		field := m[:size]
		m = m[size:]
		switch how := t.inner.use(number); {
		case how == unused:
		case how == entries && kind == protowire.BytesType:
			if key, value, ok := entry(field); !ok {
				kept = append(kept, field...) // the decoder reports the error
			} else if isPodConfig(string(key)) {
				annotations[string(key)] = "" // only the key counts
			} else if t.keep(string(key)) {
				annotations[string(key)] = string(value)
			}
			tag = protowire.AppendTag(nil, number, kind)
		default:
			kept = append(kept, field...)
		}
	}
	// All fields have been read, so the annotations may take their memory.
	for key := range annotations {
		if isPodConfig(key) {
			kept = appendEntry(kept, tag, key, "")
		}
	}
	for key, value := range bounded.Annotations(annotations, func(key string) bool { return !isPodConfig(key) }) {
		kept = appendEntry(kept, tag, key, value)
	}
	return kept, nil
}

// entry returns the key and the value of a map's entry, which are part of field. It reports
// whether the entry could be read.
func entry(field []byte) (key, value []byte, ok bool) {
	_, _, size := protowire.ConsumeTag(field)
	e, _ := protowire.ConsumeBytes(field[size:])
	for len(e) > 0 { // the last key and value count
		number, kind, size := protowire.ConsumeField(e)
		if size < 0 {
			return nil, nil, false
		}
		if kind == protowire.BytesType && (number == 1 || number == 2) {
			_, _, tag := protowire.ConsumeTag(e)
			text, _ := protowire.ConsumeBytes(e[tag:])
			if number == 1 {
				key = text
			} else {
				value = text
			}
		}
		e = e[size:]
	}
	return key, value, true
}

// appendEntry appends a map's entry with a tag to a message.
func appendEntry(to, tag []byte, key, value string) []byte {
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(key)) + protowire.SizeTag(2) + protowire.SizeBytes(len(value))
	to = protowire.AppendVarint(append(to, tag...), uint64(size))
	to = protowire.AppendString(protowire.AppendTag(to, 1, protowire.BytesType), key)
	return protowire.AppendString(protowire.AppendTag(to, 2, protowire.BytesType), value)
}
