package cri

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// The document of a verbose status contains the environment of a container more than once: in the
// configuration and in the OCI spec. The author of a pod chooses its size, and JSON takes six
// bytes for some characters. So the client reads the document from the pieces in which gRPC
// received it, and copies only the fields of info. The copy is decoded.

const (
	// maxText is the maximum length of a string in the copy, in bytes of JSON. A longer string is
	// cut, and ends with "...". The longest valid value has 20,000 bytes: a list of every second
	// CPU of 8,192, which is NR_CPUS with MAXSMP (Linux 6.12, arch/x86/Kconfig).
	maxText = 64 << 10
	// maxScalar is the maximum length of a number, in bytes.
	maxScalar = 1 << 10
	// maxCopy is the maximum length of the copy, in bytes.
	maxCopy = 1 << 20
	// maxDepth is the maximum number of nested objects and lists, as in encoding/json.
	maxDepth = 10_000
)

// docField is a field of the document.
type docField struct {
	how     use // entries: a list of strings with an environment
	members map[string]docField
}

// object returns a field whose members with these names are copied whole.
func object(names ...string) docField {
	members := make(map[string]docField, len(names))
	for _, name := range names {
		members[name] = docField{how: whole}
	}
	return docField{how: message, members: members}
}

// with returns the field with one more member.
func (d docField) with(name string, member docField) docField {
	d.members[name] = member
	return d
}

// infoFields returns the fields of info.
func infoFields() docField {
	cpu := object("shares", "quota", "period", "cpus", "mems")
	linux := object().with("linux", object("cpu_shares", "cpu_quota", "cpu_period", "cpuset_cpus", "cpuset_mems"))
	return object("sandboxID", "pid").
		with("runtimeSpec", object().
			with("annotations", object(crioCgroupParent, crioPodResources, crioPodResourcesV2)).
			with("process", object().with("env", docField{how: entries})).
			with("linux", object("cgroupsPath").with("resources", object().with("cpu", cpu)))).
		with("config", object().with("linux", object("cgroup_parent").with("resources", linux.members["linux"]))).
		with("resources", linux)
}

// inner returns the use of the values in a field that is a list, or has another type than
// expected. The decoder reports the type.
func (d docField) inner() docField {
	if d.how == unused {
		return d
	}
	return docField{how: whole}
}

// member returns the member with a name, in quotes. encoding/json ignores the case of names.
func (d docField) member(quoted []byte) docField {
	if d.how != message {
		return d.inner()
	}
	key := unquote(quoted)
	for name, member := range d.members {
		if strings.EqualFold(name, key) {
			return member
		}
	}
	return docField{}
}

// unquote returns the value of a valid JSON string.
func unquote(quoted []byte) (value string) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &value) // copier.text has checked it
	return value
}

// notJSON is the begin of the result of trimDocument for a document that is not JSON. The error
// follows.
const notJSON = "!"

// trimDocument returns the document with the fields of info only; empty for an empty document.
func trimDocument(from io.Reader) []byte {
	c := copier{from: bufio.NewReader(from)}
	if _, err := c.from.Peek(1); err != nil {
		return nil
	}
	err := c.value(infoFields())
	if err == nil {
		var more byte
		if more, err = c.next(); err == nil {
			err = unexpected(more, "after the document")
		} else if errors.Is(err, io.EOF) {
			return c.out
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return []byte(notJSON + err.Error())
}
