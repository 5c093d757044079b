// Package replay turns the output of a test binary that ran elsewhere into results of the tests that run here.
package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Outcome is the result of a test.
type Outcome string

// The outcomes. The first three are the words of `go doc test2json`.
const (
	Pass       Outcome = "pass"
	Fail       Outcome = "fail"
	Skip       Outcome = "skip"
	Unfinished Outcome = "unfinished" // it started, and the output lacks its end: the binary or its machine has ended
)

// Test is one test or subtest.
type Test struct {
	Name    string // relative to the test that it is part of
	Outcome Outcome
	Elapsed time.Duration
	Output  string // its output, without the lines that frame a test
	Sub     []*Test
}

// Run is one run of a test binary.
type Run struct {
	Outcome Outcome
	Output  string // output of no test: panics, messages of TestMain
	Tests   []*Test
}

// event is one line of `go tool test2json`, see `go doc test2json`.
type event struct {
	Action  string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

// Parse reads the JSON that `go tool test2json` makes of a run. An error means that r is no such stream; a run that broke off is
// not an error but has Unfinished in it.
func Parse(r io.Reader) (*Run, error) {
	p := parser{run: &Run{Outcome: Unfinished}, tests: make(map[string]*Test)}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("parse test event in line %d: %w", n, err)
			}
			p.add(e)
		}
		if err == io.EOF {
			return p.run, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read test events: %w", err)
		}
	}
}

type parser struct {
	run   *Run
	tests map[string]*Test // by full name
}

func (p *parser) add(e event) {
	outcome, output, elapsed := &p.run.Outcome, &p.run.Output, new(time.Duration)
	if e.Test != "" {
		t := p.test(e.Test)
		outcome, output, elapsed = &t.Outcome, &t.Output, &t.Elapsed
	}
	switch e.Action {
	case "pass", "fail", "skip":
		*outcome = Outcome(e.Action)
		*elapsed = time.Duration(e.Elapsed * float64(time.Second))
	case "output":
		if !framing(e.Output) {
			*output += e.Output
		}
	}
}

// test returns the test of that full name, and makes it, below its nearest known ancestor, on first sight.
func (p *parser) test(name string) *Test {
	if t, ok := p.tests[name]; ok {
		return t
	}
	t := &Test{Name: name, Outcome: Unfinished}
	siblings := &p.run.Tests
	for parent := name; ; {
		slash := strings.LastIndexByte(parent, '/')
		if slash < 0 {
			break
		}
		parent = parent[:slash]
		if known, ok := p.tests[parent]; ok {
			siblings = &known.Sub
			t.Name = name[len(parent)+1:]
			break
		}
	}
	*siblings = append(*siblings, t)
	p.tests[name] = t
	return t
}

// framing reports whether the replaying `go test` prints a line of output again.
func framing(line string) bool {
	line = strings.TrimLeft(line, " ")
	for _, prefix := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "--- PASS: ", "--- FAIL: ", "--- SKIP: "} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return line == "PASS\n" || line == "FAIL\n"
}
