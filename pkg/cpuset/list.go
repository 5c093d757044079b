package cpuset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Errors of the parsers, each named after the errno that the
// kernel returns for it. Test for them with [errors.Is].
var (
	// ErrSyntax is EINVAL: malformed text, or a reversed range.
	ErrSyntax = errors.New("not a CPU list")
	// ErrRange is ERANGE: a CPU number beyond the width of the set.
	ErrRange = errors.New("CPU number out of range")
	// ErrOverflow is EOVERFLOW: a number that does not fit 32 bits, or a mask
	// that has more bits than the set.
	ErrOverflow = errors.New("value too large")
)

// Parse reads the list that people write in configuration: decimal CPU numbers
// and ascending ranges, separated by commas, "0-3,8". The order of the elements
// is free and they may overlap; "" is the empty set. Blanks, line ends, empty
// elements, reversed ranges and strides are [ErrSyntax]; a CPU number above
// MaxCPUs-1 is [ErrRange]. Except for that bound and for a minus zero it accepts the lists
// of k8s.io/utils/cpuset.Parse, also with a leading plus sign and leading zeros. So a list
// means the same here and in a kubelet configuration.
func Parse(s string) (Set, error) {
	if s == "" {
		return Set{}, nil
	}
	var words []uint64
	for element := range strings.SplitSeq(s, ",") {
		first, last, err := parseElement(element)
		if err != nil {
			return Set{}, fmt.Errorf("parse CPU list %s: element %s: %w", quote(s), quote(element), err)
		}
		if need := last/wordBits + 1; need > len(words) {
			words = append(words, make([]uint64, need-len(words))...)
		}
		setRange(words, first, last)
	}
	return canonical(words), nil
}

func parseElement(element string) (first, last int, err error) {
	low, high, isRange := strings.Cut(element, "-")
	if first, err = parseCPU(low); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parseCPU(high); err != nil {
		return 0, 0, err
	}
	if first > last {
		return 0, 0, fmt.Errorf("range is reversed: %w", ErrSyntax)
	}
	return first, last, nil
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n >= MaxCPUs:
		return 0, fmt.Errorf("%w (0-%d)", ErrRange, MaxCPUs-1)
	case err != nil:
		return 0, ErrSyntax
	}
	return int(n), nil
}

// String returns s in the kernel's list format, "0-3,8": ascending, runs of two
// and more as ranges, "" for the empty set (lib/vsprintf.c bitmap_list_string).
func (s Set) String() string { return string(s.appendList(nil)) }

func (s Set) appendList(b []byte) []byte {
	last := -1
	for first := range s.All() {
		if first <= last {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		last = first
		for s.Contains(last + 1) {
			last++
		}
		if last > first {
			b = strconv.AppendInt(append(b, '-'), int64(last), 10)
		}
	}
	return b
}

// MarshalText returns the result of String. It never fails.
func (s Set) MarshalText() ([]byte, error) { return s.appendList([]byte{}), nil }

// UnmarshalText sets s to the result of [Parse].
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// quote cuts long text, so that a bad line of a large file does not fill the log.
func quote(s string) string {
	const limit = 80
	if len(s) > limit {
		return strconv.Quote(s[:limit]) + "..."
	}
	return strconv.Quote(s)
}
