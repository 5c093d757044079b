package switches

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// pageHeader is the size of the header of a page: its time, and the size of its events with flags.
const pageHeader = 16

// Flags of the size of a page: see RB_MISSED_FLAGS of kernel/trace/ring_buffer.c.
const (
	missedEvents = 1 << 31
	missedStored = 1 << 30
)

// Types of entries without data: see include/linux/ring_buffer.h.
const (
	padding      = 29
	timeExtended = 30
	timeStamp    = 31
)

// ErrLost reports that the kernel had no space for all events.
var ErrLost = errors.New("the ring buffer has lost events")

// Thread is a thread as the scheduler knows it; the idle task has the number 0.
type Thread struct {
	TID  int
	Name string
}

// Switch is a task switch on a CPU.
type Switch struct {
	At         time.Duration // CLOCK_MONOTONIC
	Prev, Next Thread
}

// ParsePage returns the switches of a page that was read from trace_pipe_raw. It skips other events.
func ParsePage(page []byte, l Layout) (all []Switch, err error) {
	if len(page) < pageHeader {
		return nil, fmt.Errorf("parse page: %d bytes; want at least %d", len(page), pageHeader)
	}
	now := binary.NativeEndian.Uint64(page)
	size := binary.NativeEndian.Uint64(page[8:])
	if size&missedEvents != 0 {
		return nil, ErrLost
	}
	size &^= missedStored
	data := page[pageHeader:]
	if size > uint64(len(data)) {
		return nil, fmt.Errorf("parse page: events of %d bytes in a page of %d", size, len(page))
	}
	for data = data[:size]; len(data) >= 4; {
		kind, delta, event, rest, err := cut(data)
		if err != nil {
			return nil, err
		}
		switch kind {
		case padding:
			if delta == 0 {
				return all, nil // the end of the page
			}
			now += delta
		case timeExtended:
			now += delta
		case timeStamp:
			const top = 0x1f << 59 // an absolute time has 59 bits
			now = now&top | delta
		default:
			now += delta
			if s, ok := l.parse(event); ok {
				s.At = time.Duration(now)
				all = append(all, s)
			}
		}
		data = rest
	}
	return all, nil
}

// cut returns the parts of the first entry of data, which has at least four bytes.
func cut(data []byte) (kind uint32, delta uint64, event, rest []byte, err error) {
	header := binary.NativeEndian.Uint32(data)
	kind, delta, data = header&31, uint64(header>>5), data[4:]
	if kind >= 1 && kind < padding {
		size := int(kind) * 4
		if size > len(data) {
			return 0, 0, nil, nil, fmt.Errorf("parse page: event of %d bytes where %d are left", size, len(data))
		}
		return kind, delta, data[:size], data[size:], nil
	}
	if kind == padding && delta == 0 {
		return kind, 0, nil, nil, nil
	}
	if len(data) < 4 {
		return 0, 0, nil, nil, fmt.Errorf("parse page: entry of type %d ends early", kind)
	}
	word := binary.NativeEndian.Uint32(data)
	if kind == timeExtended || kind == timeStamp {
		return kind, delta + uint64(word)<<27, nil, data[4:], nil
	}
	// Type 0 and padding: the word is the size, with its own four bytes.
	if word < 4 || uint64(word) > uint64(len(data)) {
		return 0, 0, nil, nil, fmt.Errorf("parse page: entry of %d bytes where %d are left", word, len(data))
	}
	end := min((int(word)+3)&^3, len(data))
	return kind, delta, data[4:word], data[end:], nil
}

// parse reports false for another event.
func (l Layout) parse(event []byte) (s Switch, ok bool) {
	last := max(l.prevName+nameSize, l.nextName+nameSize, l.prevTID+4, l.nextTID+4)
	if len(event) < last || binary.NativeEndian.Uint16(event) != l.id {
		return s, false
	}
	thread := func(name, tid int) Thread {
		text, _, _ := bytes.Cut(event[name:name+nameSize], []byte{0})
		return Thread{TID: int(int32(binary.NativeEndian.Uint32(event[tid:]))), Name: string(text)}
	}
	return Switch{Prev: thread(l.prevName, l.prevTID), Next: thread(l.nextName, l.nextTID)}, true
}
