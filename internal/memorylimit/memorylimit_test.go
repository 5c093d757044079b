package memorylimit

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// TestSet checks the limit of the process and the log for each state of the cgroup.
func TestSet(t *testing.T) {
	const before = 1 << 40
	for _, tt := range []struct {
		name   string
		env    string
		cgroup memlimit.Provider
		want   int64
		log    string
	}{
		{"limit", "", memlimit.Limit(128 << 20), 67108864, `msg="memory limit of Go" bytes=67108864`},
		{"no limit", "", func() (uint64, error) { return 0, memlimit.ErrNoLimit }, math.MaxInt64, "the cgroup has no memory limit"},
		{"unreadable", "", func() (uint64, error) { return 0, errors.New("no file") }, before, "no file"},
		{"environment", "1TiB", memlimit.Limit(128 << 20), before, `msg="memory limit of Go" bytes=1099511627776`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", tt.env) // restores the variable at the end
			if tt.env == "" {
				if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
					t.Fatal(err)
				}
			}
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(before))
			var b bytes.Buffer
			set(slog.New(slog.NewTextHandler(&b, nil)), 0.5, tt.cgroup)
			if got := debug.SetMemoryLimit(-1); got != tt.want {
				t.Errorf("limit %d; want %d", got, tt.want)
			}
			if got := b.String(); !strings.Contains(got, tt.log) || strings.Count(got, "\n") != 1 {
				t.Errorf("log %q; want one line with %q", got, tt.log)
			}
		})
	}
}
