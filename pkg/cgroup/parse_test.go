package cgroup

import (
	"fmt"
	"testing"
)

func TestParsers(t *testing.T) {
	for _, c := range []struct {
		parser, in, want string // want empty: an error
	}{
		{"cpus", "0-3,8\n", "0-3,8"},
		{"cpus", "\n", "(none)"},
		{"cpus", "", ""},
		{"cpus", "0-3", ""},
		{"cpus", "0\n1\n", ""},
		{"cpus", "3-0\n", ""},
		{"cpus", "all\n", ""},
		{"cpus", "0-99999999\n", ""},
		{"weight", "100\n", "100"},
		{"weight", "0\n", "0"},
		{"weight", "10001\n", ""},
		{"weight", "-1\n", ""},
		{"weight", "0100\n", ""},
		{"weight", "100", ""},
		{"weight", "max\n", ""},
		{"max", "max 100000\n", "-1 100000"},
		{"max", "50000 100000\n", "50000 100000"},
		{"max", "50000\n", ""},
		{"max", "-1 100000\n", ""},
		{"max", "max max\n", ""},
		{"max", "0 100000\n", ""},
		{"max", "1 2 3\n", ""},
		{"max", "99999999999999999999 1\n", ""},
		{"flag", "1\n", "true"},
		{"flag", "0\n", "false"},
		{"flag", "2\n", ""},
		{"flag", "1", ""},
		{"populated", "populated 1\nfrozen 0\n", "true"},
		{"populated", "frozen 1\npopulated 0\n", "false"},
		{"populated", "frozen 0\n", ""},
		{"populated", "populated yes\n", ""},
	} {
		got, err := parseBy(c.parser, []byte(c.in))
		if err != nil {
			got = ""
		}
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s(%q) = %q, %v; want %q", c.parser, c.in, got, err, c.want)
		}
	}
}

func parseBy(parser string, data []byte) (string, error) {
	switch parser {
	case "cpus":
		s, err := parseCPUs(data)
		if err == nil && s.IsEmpty() {
			return "(none)", nil
		}
		return s.String(), err
	case "weight":
		w, err := parseWeight(data)
		return fmt.Sprint(w), err
	case "max":
		quota, period, err := parseMax(data)
		return fmt.Sprint(quota, period), err
	case "flag":
		b, err := parseFlag(data)
		return fmt.Sprint(b), err
	}
	b, err := parsePopulated(data)
	return fmt.Sprint(b), err
}

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{"0-3,8\n", "\n", "max 100000\n", "50000 100000\n", "populated 1\nfrozen 0\n", "10000\n", "1\n", "1,,2\n", "+1\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if cpus, err := parseCPUs(data); err == nil {
			again, err := parseCPUs([]byte(cpus.String() + "\n"))
			if err != nil || !again.Equal(cpus) {
				t.Errorf("parseCPUs(%q) = %s, which reads as %s, %v", data, cpus, again, err)
			}
		}
		if w, err := parseWeight(data); err == nil && fmt.Sprintln(w) != string(data) {
			t.Errorf("parseWeight(%q) = %d", data, w)
		}
		if quota, period, err := parseMax(data); err == nil {
			text := fmt.Sprintln(quota, period)
			if quota < 0 {
				text = fmt.Sprintln("max", period)
			}
			if text != string(data) {
				t.Errorf("parseMax(%q) = %d, %d", data, quota, period)
			}
		}
		if populated, err := parsePopulated(data); err != nil && populated {
			t.Errorf("parsePopulated(%q) = true with an error", data)
		}
	})
}

// TestFormatMax checks that parseMax reads the result of FormatMax.
func TestFormatMax(t *testing.T) {
	for want, v := range map[string][2]int64{"max 100000": {-1, 100_000}, "200000 50000": {200_000, 50_000}} {
		got := FormatMax(v[0], v[1])
		if quota, period, err := parseMax([]byte(got + "\n")); got != want || err != nil || quota != v[0] || period != v[1] {
			t.Errorf("FormatMax(%d, %d) = %q, which is read as %d, %d, %v", v[0], v[1], got, quota, period, err)
		}
	}
}
