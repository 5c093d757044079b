package cpuset

import (
	"fmt"
	"strconv"
	"strings"
)

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
	groups := (nbits + groupBits - 1) / groupBits
	for i := 0; ; i++ {
		line = strings.TrimRightFunc(line, isSeparatorRune)
		if line == "" {
			return words, nil
		}
		if i == groups {
			return nil, fmt.Errorf("more than %d groups: %w", groups, ErrOverflow)
		}
		start := strings.LastIndexFunc(line, isSeparatorRune) + 1
		group, err := parseGroup(line[start:])
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", quote(line[start:]), err)
		}
		words[i/2] |= uint64(group) << (i % 2 * groupBits)
		line = line[:start]
	}
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

func isSeparatorRune(r rune) bool { return r < 0x80 && isSeparator(byte(r)) }

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
