package report

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestWriteIsBounded(t *testing.T) {
	large := make([]byte, MaxFile)
	if err := Write(io.Discard, "d", []File{{"a", append(large, 0)}}, time.Time{}); err == nil {
		t.Error("Write accepts a file above the limit")
	}
	many := make([]File, MaxTotal/MaxFile+1)
	for i := range many {
		many[i] = File{"a", large}
	}
	if err := Write(io.Discard, "d", many, time.Time{}); err == nil {
		t.Error("Write accepts a sum above the limit")
	}
	if err := Write(io.Discard, "d", many[1:], time.Unix(0, 0)); err != nil {
		t.Errorf("files within the limit: %v", err)
	}
}

func TestTail(t *testing.T) {
	for in, want := range map[string]string{"abc\ndef\n": "def\n", "abcdefghi": "efghi", "ab": "ab", "xx\néabc": "éabc", "xxxéabc": "éabc", "xxxxéabc"[1:] + "d": "abcd"} {
		if got := string(Tail([]byte(in), 5)); got != want {
			t.Errorf("Tail(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestCgroups(t *testing.T) {
	tree := fstest.MapFS{
		"cpuset.cpus.effective": {Data: []byte("0-3\n")},
		"a.slice/cpu.weight":    {Data: []byte("100\n")},
		"a.slice/memory.max":    {Data: []byte("max\n")},
	}
	got, err := Cgroups(t.Context(), tree, 1000)
	want := `{"cgroup":".","cpuset.cpus.effective":"0-3"}` + "\n" + `{"cgroup":"a.slice","cpu.weight":"100"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("Cgroups = %s, %v; want %s", got, err, want)
	}
	got, err = Cgroups(t.Context(), tree, 60)
	if err == nil || strings.Count(string(got), "\n") != 1 {
		t.Errorf("Cgroups in 60 bytes = %s, %v; want the first cgroup and an error", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Cgroups(ended, tree, 1000); err == nil || !strings.Contains(err.Error(), "time is up") {
		t.Errorf("Cgroups when the time is up: %v", err)
	}
}
