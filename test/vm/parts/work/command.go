package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

const usage = "usage: work pause | sleep | spin [THREADS] | exit CODE [after SECONDS] | report"

// maxThreads bounds spin well below the kernel's default pids.max of a small guest.
const maxThreads = 1024

// A command is one parsed command line. Fields that its name does not use are zero.
type command struct {
	name    string
	threads int           // spin: 0 means one per usable CPU
	code    int           // exit: 0 to 255
	after   time.Duration // exit: 0 means at once
}

func parse(args []string) (command, error) {
	if len(args) == 0 {
		return command{}, errors.New(usage)
	}
	c, rest := command{name: args[0]}, args[1:]
	var err error
	switch c.name {
	case "pause", "sleep", "report":
	case "spin":
		if len(rest) > 0 {
			c.threads, err = number("THREADS", rest[0], 1, maxThreads)
			rest = rest[1:]
		}
	case "exit":
		c, rest, err = parseExit(rest)
	default:
		return command{}, fmt.Errorf("unknown command %q; %s", c.name, usage)
	}
	if err != nil {
		return command{}, fmt.Errorf("%s: %w", args[0], err)
	}
	if len(rest) > 0 {
		return command{}, fmt.Errorf("%s: unexpected argument %q; %s", c.name, rest[0], usage)
	}
	return c, nil
}

func parseExit(args []string) (c command, rest []string, err error) {
	c.name = "exit"
	if len(args) == 0 {
		return c, nil, errors.New("missing CODE")
	}
	if c.code, err = number("CODE", args[0], 0, 255); err != nil {
		return c, nil, err
	}
	if len(args) < 3 || args[1] != "after" {
		return c, args[1:], nil
	}
	seconds, err := number("SECONDS", args[2], 0, 86400)
	c.after = time.Duration(seconds) * time.Second
	return c, args[3:], err
}

func number(name, s string, lowest, highest int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < lowest || n > highest {
		return 0, fmt.Errorf("%s %q is not a whole number from %d to %d", name, s, lowest, highest)
	}
	return n, nil
}

// run does what c says and returns the exit status. All commands but exit last until ctx is done.
func (c command) run(ctx context.Context, out io.Writer) (int, error) {
	switch c.name {
	case "pause":
		return 0, reap(ctx)
	case "spin":
		spin(ctx, c.threads)
		return 0, nil
	case "exit":
		select {
		case <-time.After(c.after):
			return c.code, nil
		case <-ctx.Done():
			return 0, nil
		}
	case "report":
		if err := report(out); err != nil {
			return 0, err
		}
	}
	<-ctx.Done()
	return 0, nil
}
