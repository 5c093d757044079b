package cri

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// copier copies the used fields of a document.
type copier struct {
	from  *bufio.Reader
	out   []byte
	depth int
}

func unexpected(c byte, where string) error { return fmt.Errorf("invalid character %q %s", c, where) }

// next returns the next byte that is not white space.
func (c *copier) next() (byte, error) {
	for {
		b, err := c.from.ReadByte()
		if err != nil || b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, err
		}
	}
}

// value reads one value, and copies the used part.
func (c *copier) value(d docField) error {
	if len(c.out) > maxCopy {
		return fmt.Errorf("the used part has more than %d bytes", maxCopy)
	}
	b, err := c.next()
	if err != nil {
		return err
	}
	if b != '{' && b != '[' {
		if b == '"' {
			return c.text(d.how != unused)
		}
		return c.scalar(b, d.how != unused)
	}
	if c.depth++; c.depth > maxDepth {
		return fmt.Errorf("more than %d nested values", maxDepth)
	}
	if b == '{' {
		err = c.object(d)
	} else {
		err = c.list(d)
	}
	c.depth--
	return err
}

// more reads up to the next item of an object or a list that ends with end. It returns the first byte of
// the item, and whether there is one.
func (c *copier) more(first bool, end byte) (byte, bool, error) {
	b, err := c.next()
	switch {
	case err != nil || b == end:
		return b, false, err
	case first:
		return b, true, nil
	case b != ',':
		return b, false, unexpected(b, "after a value")
	}
	b, err = c.next()
	return b, true, err
}

// item appends a comma unless the next item is the first of an object or a list.
func (c *copier) item() {
	if last := c.out[len(c.out)-1]; last != '{' && last != '[' {
		c.out = append(c.out, ',')
	}
}

// object reads an object after its bracket.
func (c *copier) object(d docField) error {
	used := d.how != unused
	if used {
		c.out = append(c.out, '{')
	}
	for first := true; ; first = false {
		b, ok, err := c.more(first, '}')
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if b != '"' {
			return unexpected(b, "instead of a name")
		}
		start, member := len(c.out), docField{}
		if used {
			c.item()
		}
		name := len(c.out)
		if err := c.text(used); err != nil {
			return err
		}
		if used {
			member = d.member(c.out[name:])
		}
		if member.how == unused {
			c.out = c.out[:start]
		} else {
			c.out = append(c.out, ':')
		}
		if b, err = c.next(); err != nil {
			return err
		} else if b != ':' {
			return unexpected(b, "after a name")
		}
		if err := c.value(member); err != nil {
			return err
		}
	}
	if used {
		c.out = append(c.out, '}')
	}
	return nil
}

// list reads a list after its bracket. Of the strings in an environment, it copies the last
// with OPENSHIFT_SHARED_CPUS, because no other counts.
func (c *copier) list(d docField) error {
	used := d.how != unused
	if used {
		c.out = append(c.out, '[')
	}
	var last []byte
	for first := true; ; first = false {
		b, ok, err := c.more(first, ']')
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		_ = c.from.UnreadByte() // b was read
		start := len(c.out)
		if used {
			c.item()
		}
		name := len(c.out)
		if err := c.value(d.inner()); err != nil {
			return err
		}
		if d.how == entries && b == '"' {
			if isSharedCPUs(c.out[name:]) {
				last = append(last[:0], c.out[name:]...)
			}
			c.out = c.out[:start]
		}
	}
	if last != nil {
		c.item()
		c.out = append(c.out, last...)
	}
	if used {
		c.out = append(c.out, ']')
	}
	return nil
}

// isSharedCPUs reports whether a variable, in quotes, is OPENSHIFT_SHARED_CPUS.
func isSharedCPUs(quoted []byte) bool {
	const prefix = SharedCPUsVariable + "="
	begin := quoted[1:min(len(quoted), len(prefix)+1)]
	if bytes.IndexByte(begin, '\\') < 0 {
		return string(begin) == prefix
	}
	return strings.HasPrefix(unquote(quoted), prefix)
}

// text reads a string after its quote.
func (c *copier) text(used bool) error {
	c.keep(used, '"')
	room := maxText
	for {
		if _, err := c.from.Peek(1); err != nil {
			return err
		}
		part, _ := c.from.Peek(c.from.Buffered())
		n := 0
		for n < len(part) && part[n] != '"' && part[n] != '\\' && part[n] >= ' ' {
			n++
		}
		fits := min(n, max(room, 0))
		c.keep(used, part[:fits]...)
		if room -= n; room < 0 {
			c.dropPart(used)
		}
		_, _ = c.from.Discard(n) // part of the buffer
		switch {
		case n == len(part):
		case part[n] < ' ':
			return unexpected(part[n], "in a string")
		case part[n] == '"':
			_, _ = c.from.Discard(1)
			if room < 0 {
				c.keep(used, []byte("...")...)
			}
			c.keep(used, '"')
			return nil
		default:
			escape, err := c.escape()
			if err != nil {
				return err
			}
			if room -= len(escape); room >= 0 {
				c.keep(used, escape...)
			}
			_, _ = c.from.Discard(len(escape))
		}
	}
}

// keep appends bytes to the copy if they are used.
func (c *copier) keep(used bool, part ...byte) {
	if used {
		c.out = append(c.out, part...)
	}
}

// dropPart removes the part of a character at the end of the copy, because protobuf refuses
// invalid UTF-8.
func (c *copier) dropPart(used bool) {
	for used {
		if r, size := utf8.DecodeLastRune(c.out); r != utf8.RuneError || size != 1 {
			return
		}
		c.out = c.out[:len(c.out)-1]
	}
}

// escape returns the escape sequence at the begin of the buffer, and leaves it there.
func (c *copier) escape() ([]byte, error) {
	e, err := c.from.Peek(2)
	if err != nil {
		return nil, err
	}
	if e[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, e[1]) < 0 {
			return nil, unexpected(e[1], "after a backslash")
		}
		return e, nil
	}
	if e, err = c.from.Peek(6); err != nil {
		return nil, err
	}
	for _, digit := range e[2:] {
		if strings.IndexByte("0123456789abcdefABCDEF", digit) < 0 {
			return nil, unexpected(digit, "in a character code")
		}
	}
	return e, nil
}

// scalar reads a number or a literal that begins with b.
func (c *copier) scalar(b byte, used bool) error {
	start := len(c.out)
	c.out = append(c.out, b)
	for {
		b, err := c.from.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if strings.IndexByte(" \t\r\n,:]}", b) >= 0 {
			_ = c.from.UnreadByte() // b was read
			break
		}
		if c.out = append(c.out, b); len(c.out)-start > maxScalar {
			return fmt.Errorf("a number has more than %d bytes", maxScalar)
		}
	}
	if token := c.out[start:]; !json.Valid(token) {
		return fmt.Errorf("invalid value %.40q", token)
	}
	if !used {
		c.out = c.out[:start]
	}
	return nil
}
