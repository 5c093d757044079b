package publish_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

var errAway = errors.New("connection refused")

// TestView checks the state of each source after a sequence of reports.
func TestView(t *testing.T) {
	const ok, lost, absent, polling = telemetry.SourceOK, telemetry.SourceLost, telemetry.SourceAbsent, telemetry.SourcePolling
	for name, c := range map[string]struct {
		source telemetry.Source
		do     func(*publish.States)
		want   telemetry.SourceState
	}{
		"stream before the start": {telemetry.CRIEvents, func(*publish.States) {}, lost},
		"stream":                  {telemetry.CRIEvents, func(s *publish.States) { s.Stream(cri.Connected, nil) }, ok},
		"runtime without events":  {telemetry.CRIEvents, func(s *publish.States) { s.Stream(cri.Unsupported, nil) }, polling},
		"runtime that hangs":      {telemetry.CRIEvents, func(s *publish.States) { s.Stream(cri.Connected, nil); s.Listed(errAway) }, lost},
		"runtime that answers":    {telemetry.CRIEvents, func(s *publish.States) { s.Stream(cri.Connected, nil); s.Listed(errAway); s.Listed(nil) }, ok},
		"NRI before the start":    {telemetry.NRI, func(*publish.States) {}, absent},
		"no NRI":                  {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Absent, errAway) }, absent},
		"NRI":                     {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Connected, nil) }, ok},
		"NRI lost":                {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Connected, nil); s.NRI(nri.Absent, errAway) }, lost},
		"NRI waits":               {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Waiting, errAway) }, absent},
		"NRI waits again":         {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Lost, errAway); s.NRI(nri.Waiting, errAway) }, lost},
		"NRI after a wait":        {telemetry.NRI, func(s *publish.States) { s.NRI(nri.Waiting, errAway); s.NRI(nri.Connected, nil) }, ok},
		"units":                   {telemetry.Units, func(*publish.States) {}, ok},
		"units lost":              {telemetry.Units, func(s *publish.States) { s.Units(errAway) }, lost},
		"reloads lost":            {telemetry.Units, func(s *publish.States) { s.Reloads(errAway); s.Units(nil) }, lost},
		"units again":             {telemetry.Units, func(s *publish.States) { s.Reloads(errAway); s.Reloads(nil) }, ok},
		"CPUs":                    {telemetry.CPUs, func(*publish.States) {}, ok},
		"CPUs lost":               {telemetry.CPUs, func(s *publish.States) { s.CPUs(errAway) }, lost},
	} {
		h := nodefixture.New(t, nodefixture.Spec{}).Host()
		h.NRISocket = "nri.sock"
		s := publish.NewStates(slog.New(slog.DiscardHandler))
		if c.do(s); s.View(&h, false)[c.source] != c.want {
			t.Errorf("%s: %s is %q; want %q", name, c.source, s.View(&h, false)[c.source], c.want)
		}
		h.Runtime, h.Units, h.CPUs, h.NRISocket = nil, nil, nil, ""
		if d := cmp.Diff(map[telemetry.Source]telemetry.SourceState{telemetry.Units: lost}, s.View(&h, true)); d != "" {
			t.Errorf("%s: on a host with nothing but configured units (-want +got):\n%s", name, d)
		}
	}
}

// TestLog checks that each change of a source is logged once, and the causes that States returns.
func TestLog(t *testing.T) {
	var text strings.Builder
	s := publish.NewStates(slog.New(slog.NewTextHandler(&text, nil)))
	for _, err := range []error{errAway, errAway, nil, nil} {
		s.Listed(err)
	}
	for _, state := range []nri.State{nri.Waiting, nri.Connected, nri.Connected, nri.Lost} {
		s.NRI(state, errAway)
	}
	s.Config(errAway)
	for line, n := range map[string]int{"list pods and containers": 1, "lists pods and containers again": 1, "NRI waits": 1, "NRI is connected": 1, "NRI is lost": 1, "configuration refused": 1} {
		if got := strings.Count(text.String(), line); got != n {
			t.Errorf("%q is logged %d times; want %d:\n%s", line, got, n, &text)
		}
	}
	if s.RuntimeErr() != nil || !errors.Is(s.NRIErr(), errAway) || !errors.Is(s.ConfigErr(), errAway) || s.HasNRI() {
		t.Errorf("runtime %v, NRI %v, configuration %v", s.RuntimeErr(), s.NRIErr(), s.ConfigErr())
	}
}
