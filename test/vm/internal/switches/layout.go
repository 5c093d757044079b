package switches

import (
	"bytes"
	"fmt"
)

// nameSize is the size of a task's name in the kernel (TASK_COMM_LEN).
const nameSize = 16

// Layout holds the positions of the used fields of the event sched_switch. They differ between kernels.
type Layout struct {
	id                                   uint16
	prevName, prevTID, nextName, nextTID int
}

// ParseLayout reads the file "format" of the event.
func ParseLayout(format []byte) (l Layout, err error) {
	offsets := make(map[string]int)
	for line := range bytes.Lines(format) {
		var size, signed, offset int
		if n, _ := fmt.Sscanf(string(line), "ID: %d", &offset); n == 1 {
			l.id = uint16(offset)
			continue
		}
		declaration, rest, ok := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		if !ok || !bytes.HasPrefix(declaration, []byte("field:")) {
			continue
		}
		if _, err := fmt.Sscanf(string(bytes.TrimSpace(rest)), "offset:%d; size:%d; signed:%d;", &offset, &size, &signed); err != nil {
			return l, fmt.Errorf("parse format of sched_switch: line %q: %w", line, err)
		}
		offsets[fmt.Sprintf("%s size %d", declaration[len("field:"):], size)] = offset
	}
	if l.id == 0 {
		return l, fmt.Errorf("parse format of sched_switch: no ID in %.100q", format)
	}
	for field, to := range map[string]*int{
		"char prev_comm[16] size 16": &l.prevName, "pid_t prev_pid size 4": &l.prevTID,
		"char next_comm[16] size 16": &l.nextName, "pid_t next_pid size 4": &l.nextTID,
	} {
		offset, ok := offsets[field]
		if !ok || offset <= 0 || offset > 1<<10 {
			return l, fmt.Errorf("parse format of sched_switch: field %q is missing or at %d", field, offset)
		}
		*to = offset
	}
	return l, nil
}
