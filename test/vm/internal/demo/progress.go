package demo

import (
	"fmt"
	"io"
	"time"
)

// progress tells somebody who watches what is going on.
type progress struct {
	out   io.Writer
	begin time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, begin: time.Now()} }

func (p *progress) step(format string, args ...any) {
	fmt.Fprintf(p.out, "%5.0f s  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}
