package cgroup

import (
	"testing"
	"time"
)

func TestParseUsage(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"usage_usec 1234567\nuser_usec 1000000\nsystem_usec 234567\n": 1234567 * time.Microsecond,
		"nr_periods 3\nusage_usec 0\n":                                0,
		"":                                                            -1,
		"user_usec 5\n":                                               -1,
		"usage_usec -1\n":                                             -1,
		"usage_usec 9223372036854775807\n":                            -1,
	} {
		got, err := parseUsage([]byte(text))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("parseUsage(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add([]byte("usage_usec 1234567\nuser_usec 1000000\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if used, err := parseUsage(data); err == nil && used < 0 {
			t.Errorf("parseUsage(%q) = %v; want at least 0", data, used)
		}
	})
}
