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
	const all = "all"
	if rest := p.text[p.pos:]; len(rest) >= len(all) && strings.EqualFold(rest[:len(all)], all) {
		p.pos += len(all)
		r.end = p.lastBit
	} else {
		if r.start, err = p.number(); err != nil {
			return r, err
		}
		r.end = r.start
		if p.endsRegion() {
			return p.whole(r), nil
		}
		if r.end, err = p.numberAfter('-'); err != nil {
			return r, err
		}
	}
	if p.endsRegion() {
		return p.whole(r), nil
	}
	if r.used, err = p.numberAfter(':'); err == nil {
		r.group, err = p.numberAfter('/')
	}
	return r, err
}

// whole completes a region without a group. Like the kernel it wraps around for
// an end of 2^32-1, which check then refuses.
func (p *listParser) whole(r region) region {
	r.used, r.group = r.end+1, r.end+1
	p.ended = p.peek() == 0 || p.peek() == '\n'
	return r
}

func (p *listParser) numberAfter(c byte) (uint32, error) {
	if p.peek() != c {
		return 0, ErrSyntax
	}
	p.pos++
	return p.number()
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

// groupBits is how many bits the kernel prints between two commas of a mask.
const groupBits = 32

// ParseMask reads the kernel's mask format, groups of up to eight hexadecimal
// digits of which the last one holds CPUs 0-31, as in smp_affinity
// (lib/bitmap-str.c bitmap_parse). Groups are separated by commas and white
// space, empty ones are skipped, and the text ends at the first newline or NUL.
//
// nbits, in 1..MaxCPUs, is the width of the mask; other widths are [ErrRange]. More groups
// or bits than that, or more than eight digits in a group, are [ErrOverflow].
// Other characters are [ErrSyntax], also before eight digits, where the
// kernel overlooks one.
func ParseMask(s string, nbits int) (Set, error) {
	if nbits < 1 || nbits > MaxCPUs {
		return Set{}, fmt.Errorf("parse CPU mask: width %d is outside 1-%d: %w", nbits, MaxCPUs, ErrRange)
	}
	line := s
	if end := strings.IndexAny(s, "\n\x00"); end >= 0 {
		line = s[:end]
	}
	words, err := parseGroups(line, nbits)
	if err != nil {
		return Set{}, fmt.Errorf("parse CPU mask %s: %w", quote(s), err)
	}
	set := canonical(words)
	if last := set.Last(); last >= nbits {
		return Set{}, fmt.Errorf("parse CPU mask %s: CPU %d, highest is %d: %w", quote(s), last, nbits-1, ErrOverflow)
	}
	return set, nil
}

// parseGroups reads from the right, because the last group is the lowest. Its error
// is about the rightmost malformed group, as in the kernel.
func parseGroups(line string, nbits int) ([]uint64, error) {
	words := wordsFor(nbits - 1)
	most := (nbits + groupBits - 1) / groupBits
	groups := strings.FieldsFunc(line, func(r rune) bool { return r < 0x80 && isSeparator(byte(r)) })
	for i := range groups {
		if i == most {
			return nil, fmt.Errorf("more than %d groups: %w", most, ErrOverflow)
		}
		text := groups[len(groups)-1-i]
		group, err := parseGroup(text)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", quote(text), err)
		}
		words[i/2] |= uint64(group) << (i % 2 * groupBits)
	}
	return words, nil
}

// parseGroup checks from the right as well: too many digits are noticed before
// a bad character in front of them.
func parseGroup(group string) (uint32, error) {
	const digits = groupBits / 4
	tail := group[max(0, len(group)-digits):]
	n, err := strconv.ParseUint(tail, 16, groupBits)
	if err != nil {
		return 0, ErrSyntax
	}
	if len(group) == len(tail) {
		return uint32(n), nil
	}
	if _, err := strconv.ParseUint(group[len(group)-digits-1:len(group)-digits], 16, 4); err != nil {
		return 0, ErrSyntax
	}
	return 0, fmt.Errorf("more than %d digits: %w", digits, ErrOverflow)
}

// Mask returns the lowest nbits CPUs of s in the kernel's mask format: groups of
// 32 bits from the highest to the lowest, separated by commas. It is padded to the
// width of nbits ("f,ffffffff" for 36; lib/vsprintf.c bitmap_string). CPUs at
// nbits and above are left out. A width below 1 is "".
func (s Set) Mask(nbits int) string {
	var b strings.Builder
	for group := (nbits+groupBits-1)/groupBits - 1; group >= 0; group-- {
		width := min(groupBits, nbits-group*groupBits)
		value := s.group(group) & uint32(uint64(1)<<width-1)
		fmt.Fprintf(&b, "%0*x", (width+3)/4, value)
		if group > 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

// group returns CPUs 32*i..32*i+31 as bits.
func (s Set) group(i int) uint32 {
	if i/2 >= len(s.words) {
		return 0
	}
	return uint32(s.words[i/2] >> (i % 2 * groupBits))
}
