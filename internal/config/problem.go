package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// Problem is one rejected setting.
type Problem struct {
	// File is the path that Load has received, or the flag ("flag --log-level").
	File string
	// Line is the line of the key, or of the closest parent key in the file. It is 0
	// without such a line.
	Line int
	// Key is the path of the setting, like "partitions[0].cpus"; empty for a
	// problem of the whole file.
	Key string
	// Value is the rejected value, shortened if it is long.
	Value string
	// Reason states the fault and the remedy.
	Reason string

	flag  bool // File is a flag
	known bool // the setting has a value in spite of the problem
}

// Error returns one line: file:line: key: "value": reason.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	if p.Value != "" {
		b.WriteString(": " + strconv.Quote(p.Value))
	}
	return b.String() + ": " + p.Reason
}

// origins holds the source of each setting. A setting without a source is a default. Its
// problems name the file that could change it.
type origins struct {
	file  string
	lines map[string]int    // by key
	flags map[string]string // flag name by key
}

func (o origins) problem(key, value, reason string) *Problem {
	p := &Problem{File: o.file, Key: key, Value: layout.Clip(value, 64), Reason: reason}
	if flag, ok := o.flags[key]; ok {
		p.File, p.flag = "flag --"+flag, true
		return p
	}
	for k := key; p.Line == 0 && k != ""; k = parentKey(k) {
		p.Line = o.lines[k]
	}
	return p
}

func (o origins) has(key string) bool {
	_, file := o.lines[key]
	_, flag := o.flags[key]
	return file || flag
}

// parentKey cuts the last element off "partitions[0].cpus".
func parentKey(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}

// IsFromFlag reports whether an error of [Load] has a problem with the value of a flag.
func IsFromFlag(err error) bool {
	return slices.ContainsFunc(Flatten(err), func(e error) bool {
		p, ok := errors.AsType[*Problem](e)
		return ok && p.flag
	})
}
