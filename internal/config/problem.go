package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// Problem is one setting that cannot be honoured.
type Problem struct {
	// File is the file as it was given to Load, or the flag ("flag
	// --log-level").
	File string
	// Line is the line of the key, or of the closest key above it that the file
	// has; 0 where there is none.
	Line int
	// Key is the path of the setting, like "partitions[0].cpus"; empty for a
	// problem of the whole file.
	Key string
	// Value is what was written, shortened if it is long.
	Value string
	// Reason says what is wrong and what to write instead.
	Reason string

	flag  bool // File is a flag
	known bool // the setting has a value in spite of the problem
}

// Error is one line: file:line: key: "value": reason.
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

// origins remembers where each setting came from. A setting that is in no file
// and no flag is a default, and blamed on the file that could change it.
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
