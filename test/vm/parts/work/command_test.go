package main

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for args, want := range map[string]command{
		"pause":            {name: "pause"},
		"sleep":            {name: "sleep"},
		"report":           {name: "report"},
		"spin":             {name: "spin"},
		"spin 3":           {name: "spin", threads: 3},
		"exit 0":           {name: "exit"},
		"exit 7":           {name: "exit", code: 7},
		"exit 255 after 2": {name: "exit", code: 255, after: 2 * time.Second},
	} {
		if got, err := parse(strings.Fields(args)); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v; want %+v", args, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                   `usage:`,
		"burn":               `unknown command "burn"`,
		"pause now":          `unexpected argument "now"`,
		"spin 0":             `THREADS "0"`,
		"spin 1025":          `THREADS "1025"`,
		"spin two":           `THREADS "two"`,
		"spin 1 2":           `unexpected argument "2"`,
		"exit":               `missing CODE`,
		"exit 256":           `CODE "256"`,
		"exit -1":            `CODE "-1"`,
		"exit 1 in 2":        `unexpected argument "in"`,
		"exit 1 after":       `unexpected argument "after"`,
		"exit 1 after x":     `SECONDS "x"`,
		"exit 1 after 86401": `SECONDS "86401"`,
		"exit 1 after 1 2":   `unexpected argument "2"`,
	} {
		if got, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse(%q) = %+v, %v; want an error with %s", args, got, err, want)
		}
	}
}

func TestCpusAllowed(t *testing.T) {
	got, err := cpusAllowed("Name:\twork\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,6\nMems_allowed_list:\t0\n")
	if err != nil || got != "0-3,6" {
		t.Errorf("got %q, %v; want 0-3,6", got, err)
	}
	if got, err := cpusAllowed("Name:\twork\n"); err == nil {
		t.Errorf("got %q without the line; want an error", got)
	}
}

func TestUnified(t *testing.T) {
	for in, want := range map[string]string{
		"0::/kubepods.slice/x.scope\n":   "/kubepods.slice/x.scope",
		"12:cpu:/a\n1:name=b:/c\n0::/\n": "/",
		"12:cpu,cpuset:/a\n":             "-",
	} {
		if got := unified(in); got != want {
			t.Errorf("unified(%q) = %q; want %q", in, got, want)
		}
	}
}
