package cpuset

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseKernel reads a CPU list as the kernel does in cpuset.cpus and on
// its command line (Documentation/admin-guide/kernel-parameters.rst, "cpu
// lists"; lib/bitmap-str.c bitmap_parselist). Elements are separated by any number of
// commas and white space. An element is a CPU, a range "0-7", or "all" in any
// case. "N" as a number stands for nbits-1. A range or "all" may be
// followed by ":USED/GROUP", which takes the first USED of every GROUP CPUs. The
// text ends at a NUL and at a newline that follows an element without a group.
//
// nbits, in 1..MaxCPUs, is the width of the kernel's mask: CPUs at nbits and above
// are [ErrRange]. Numbers that do not fit 32 bits are [ErrOverflow], all other
// errors are [ErrSyntax]; the kernel returns the errno of that name.
//
// One defect is not followed: where GROUP is so large that the kernel's 32-bit
// counter wraps around, it sets CPUs below the range.
func ParseKernel(s string, nbits int) (Set, error) {
	if nbits < 1 || nbits > MaxCPUs {
		return Set{}, fmt.Errorf("parse kernel CPU list: width %d is outside 1-%d: %w", nbits, MaxCPUs, ErrRange)
	}
	p := listParser{text: s, lastBit: uint32(nbits - 1)}
	words := wordsFor(nbits - 1)
	for p.nextRegion() {
		r, err := p.region()
		if err == nil {
			err = r.check(p.lastBit)
		}
		if err != nil {
			return Set{}, fmt.Errorf("parse kernel CPU list %s: at byte %d: %w", quote(s), p.pos, err)
		}
		r.fill(words)
	}
	return canonical(words), nil
}

// region is one element: the first used of every group CPUs in start..end.
type region struct{ start, end, used, group uint32 }

func (r region) check(lastBit uint32) error {
	switch {
	case r.start > r.end:
		return fmt.Errorf("range %d-%d is reversed: %w", r.start, r.end, ErrSyntax)
	case r.group == 0 || r.used > r.group:
		return fmt.Errorf("group %d/%d is impossible: %w", r.used, r.group, ErrSyntax)
	case r.end > lastBit:
		return fmt.Errorf("CPU %d, highest is %d: %w", r.end, lastBit, ErrRange)
	}
	return nil
}

func (r region) fill(words []uint64) {
	if r.used == 0 {
		return
	}
	end := int(r.end)
	for first := int(r.start); first <= end; first += int(r.group) {
		setRange(words, first, min(end, first+int(r.used)-1))
	}
}

// listParser walks over text as bitmap_parselist walks over a C string: past the
// end it reads NUL.
type listParser struct {
	text    string
	pos     int
	lastBit uint32
	ended   bool // an element was ended by the end of the text
}

func (p *listParser) peek() byte {
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// nextRegion moves to the next element and reports whether there is one.
func (p *listParser) nextRegion() bool {
	if p.ended {
		return false
	}
	for isSeparator(p.peek()) {
		p.pos++
	}
	return p.peek() != 0
}

func (p *listParser) region() (region, error) {
	var r region
	var err error
	if p.acceptAll() {
		r.end = p.lastBit
	} else {
		if r.start, err = p.number(); err != nil {
			return r, err
		}
		r.end = r.start
		if p.endsRegion() {
			return p.whole(r), nil
		}
		if err := p.expect('-'); err != nil {
			return r, err
		}
		if r.end, err = p.number(); err != nil {
			return r, err
		}
	}
	if p.endsRegion() {
		return p.whole(r), nil
	}
	if err := p.expect(':'); err != nil {
		return r, err
	}
	if r.used, err = p.number(); err != nil {
		return r, err
	}
	if err := p.expect('/'); err != nil {
		return r, err
	}
	r.group, err = p.number()
	return r, err
}

// whole completes a region without a group. Like the kernel it wraps around for
// an end of 2^32-1, which check then refuses.
func (p *listParser) whole(r region) region {
	r.used, r.group = r.end+1, r.end+1
	p.ended = p.peek() == 0 || p.peek() == '\n'
	return r
}

func (p *listParser) acceptAll() bool {
	const all = "all"
	if rest := p.text[p.pos:]; len(rest) < len(all) || !strings.EqualFold(rest[:len(all)], all) {
		return false
	}
	p.pos += len(all)
	return true
}

func (p *listParser) expect(c byte) error {
	if p.peek() != c {
		return ErrSyntax
	}
	p.pos++
	return nil
}

func (p *listParser) number() (uint32, error) {
	if p.peek() == 'N' {
		p.pos++
		return p.lastBit, nil
	}
	rest := p.text[p.pos:]
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	p.pos += len(digits)
	n, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case digits == "":
		return 0, ErrSyntax
	case err != nil:
		return 0, ErrOverflow
	}
	return uint32(n), nil
}

func (p *listParser) endsRegion() bool { return isSeparator(p.peek()) || p.peek() == 0 }

// isSeparator reports whether c is a comma or, as in the kernel's isspace (lib/ctype.c), an
// ASCII white space, including the newline.
func isSeparator(c byte) bool { return c == ',' || c == ' ' || c >= '\t' && c <= '\r' }
