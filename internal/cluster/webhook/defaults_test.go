package webhook

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/cpupoold/cpupoold/internal/admission"
)

func TestMinorOf(t *testing.T) {
	for _, c := range []struct {
		info  version.Info
		minor int // -1: an error
	}{
		{version.Info{Major: "1", Minor: "37"}, 37},
		{version.Info{Major: "1", Minor: "36+"}, 36},
		{version.Info{Major: "1", Minor: "38", EmulationMajor: "1", EmulationMinor: "36"}, 36},
		{version.Info{Major: "2", Minor: "1"}, -1},
		{version.Info{Major: "1", Minor: "x"}, -1},
		{version.Info{Major: "1", Minor: "-1"}, -1},
		{version.Info{}, -1},
	} {
		minor, err := minorOf(&c.info)
		if (err != nil) != (c.minor < 0) || err == nil && minor != c.minor {
			t.Errorf("%+v: %d, %v; want %d", c.info, minor, err, c.minor)
		}
	}
}

// TestDefaults checks that the settings follow the API server's version, also after its
// upgrade, and stay as they are while it does not answer.
func TestDefaults(t *testing.T) {
	cluster := clusterOf(advertising("a"), unlatched())
	s := replicaOf(t, cluster, cluster)
	asked := 0
	answer := func(minor string, err error) func(context.Context) (*version.Info, error) {
		return func(context.Context) (*version.Info, error) {
			asked++
			return &version.Info{Major: "1", Minor: minor}, err
		}
	}
	for i, step := range []struct {
		minor string
		err   error
		due   bool
		want  admission.Defaults
		asked int
	}{
		{"36", errors.New("forbidden"), true, admission.DefaultLimits, 1},
		{"36", nil, false, admission.DefaultLimits, 1},
		{"36", nil, true, admission.DefaultRequests, 2},
		{"37", errors.New("no answer"), true, admission.DefaultRequests, 3},
		{"37", nil, true, admission.DefaultLimits, 4},
	} {
		if step.due {
			s.defaults.next = time.Time{}
		}
		s.version = answer(step.minor, step.err)
		if err := s.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if settings, _ := s.Settings(); settings.Defaults != step.want || asked != step.asked {
			t.Errorf("step %d: defaults %d after %d questions; want %d after %d", i, settings.Defaults, asked, step.want, step.asked)
		}
		if !s.defaults.next.After(time.Now()) {
			t.Errorf("step %d: the next question is at once", i)
		}
	}
}

// FuzzMinorOf checks that any answer of a server gives a version or an error.
func FuzzMinorOf(f *testing.F) {
	f.Add("1", "37", "", "")
	f.Add("1", "36+", "1", "35")
	f.Fuzz(func(t *testing.T, major, minor, emulationMajor, emulationMinor string) {
		n, err := minorOf(&version.Info{Major: major, Minor: minor, EmulationMajor: emulationMajor, EmulationMinor: emulationMinor})
		if n < 0 || err != nil && n != 0 {
			t.Errorf("%d, %v", n, err)
		}
		d := defaults{}
		d.get(t.Context(), func(context.Context) (*version.Info, error) { return &version.Info{Major: major, Minor: minor}, nil }, slog.New(slog.DiscardHandler))
	})
}
