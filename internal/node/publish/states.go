package publish

import (
	"cmp"
	"log/slog"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// States holds the states of the sources of events: which sources are connected, and why another one is
// not. A method with an error takes nil for a source that works.
type States struct {
	log                              *slog.Logger
	stream                           cri.StreamState
	listing                          error                 // of the last listing
	nri                              telemetry.SourceState // empty before the first try
	nriErr                           error                 // why it is not connected
	nriWaits                         bool                  // the runtime completes other requests first
	config                           error                 // why the last configuration is refused
	unitsLost, reloadsLost, cpusLost bool
	withheld                         []usablecpus.Withheld
}

// Stream takes the state of the runtime's event stream.
func (s *States) Stream(state cri.StreamState, err error) {
	s.stream = state
	s.log.Info("runtime event stream", "state", state, "error", err)
}

// PollsRuntime reports whether the runtime has no event stream.
func (s *States) PollsRuntime() bool { return s.stream == cri.Unsupported }

// Listed takes the result of a listing.
func (s *States) Listed(err error) {
	switch before := s.listing; {
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.log.Warn("list pods and containers", "error", err)
	case err == nil && before != nil:
		s.log.Info("the container runtime lists pods and containers again")
	}
	s.listing = err
}

// RuntimeErr returns the error of the last listing.
func (s *States) RuntimeErr() error { return s.listing }

// NRI takes the state of the NRI connection.
func (s *States) NRI(state nri.State, err error) {
	before := s.nri
	s.nriErr, s.nriWaits = err, state == nri.Waiting
	switch s.nri = nriState(state, before); {
	case state == nri.Waiting:
		s.log.Warn("NRI waits; the problem NRIWaits states the effect", "error", err)
	case s.nri == before:
	case state == nri.Connected:
		s.log.Info("NRI is connected: containers are placed before they exist")
	case s.nri == telemetry.SourceLost:
		s.log.Error("NRI is lost: containers are placed when the runtime reports them, which is after their first instruction", "error", err)
	default:
		s.log.Info("the runtime does not offer NRI; containers are placed when the runtime reports them", "error", err)
	}
}

// nriState returns the state of NRI as a source: lost only after it was connected once.
func nriState(s nri.State, before telemetry.SourceState) telemetry.SourceState {
	switch {
	case s == nri.Connected:
		return telemetry.SourceOK
	case s == nri.Lost, before == telemetry.SourceOK, before == telemetry.SourceLost:
		return telemetry.SourceLost
	default:
		return telemetry.SourceAbsent
	}
}

// HasNRI reports whether NRI is connected.
func (s *States) HasNRI() bool { return s.nri == telemetry.SourceOK }

// LacksNRI reports whether NRI is not used, or a try to connect has failed. The problem NRIWaits
// replaces it while the runtime completes other requests first.
func (s *States) LacksNRI(h *hostenv.Host) bool {
	return !s.HasNRI() && !s.nriWaits && (s.nri != "" || h.NRISocket == "")
}

// codeNRIWaits is the code of the problem that the runtime does not complete the connection of NRI.
const codeNRIWaits pools.Code = "NRIWaits"

// nriProblems returns a problem while the runtime completes other requests before it connects NRI.
func (s *States) nriProblems() []pools.Problem {
	if !s.nriWaits {
		return nil
	}
	return []pools.Problem{{Reason: pools.Reason{Code: codeNRIWaits, Text: s.nriErr.Error() +
		": end the pods that are being stopped; without such pods, restart the runtime"}}}
}

// Units takes the state of systemd's reports of units.
func (s *States) Units(err error) {
	if s.unitsLost = err != nil; s.unitsLost {
		s.log.Warn("watch units", "error", err)
	}
}

// Reloads takes the state of systemd's reports of reloads. The watcher of the cgroups still finds
// the values that an unreported reload writes.
func (s *States) Reloads(err error) {
	if s.reloadsLost = err != nil; s.reloadsLost {
		s.log.Warn("watch systemd", "error", err)
	}
}

// CPUs takes the state of the watch of CPUs.
func (s *States) CPUs(err error) { s.cpusLost = err != nil }

// Withhold takes the CPUs that are online and that pools cannot use.
func (s *States) Withhold(all []usablecpus.Withheld) { s.withheld = all }

// Config takes the result of reading the configuration again.
func (s *States) Config(err error) {
	if s.config = err; err != nil {
		s.log.Error("configuration refused; the one in force stays", "error", err)
	}
}

// ConfigErr returns why the last configuration is refused.
func (s *States) ConfigErr() error { return s.config }

// View returns the states of the sources that the host has. hasUnits reports whether the
// configuration contains units.
func (s *States) View(h *hostenv.Host, hasUnits bool) map[telemetry.Source]telemetry.SourceState {
	all := make(map[telemetry.Source]telemetry.SourceState)
	if h.Runtime != nil {
		all[telemetry.CRIEvents] = telemetry.SourceLost
		switch {
		case s.listing != nil: // a runtime that hangs does not end its stream, but sends no events
		case s.stream == cri.Connected:
			all[telemetry.CRIEvents] = telemetry.SourceOK
		case s.stream == cri.Unsupported:
			all[telemetry.CRIEvents] = telemetry.SourcePolling
		}
	}
	if h.NRISocket != "" {
		all[telemetry.NRI] = cmp.Or(s.nri, telemetry.SourceAbsent)
	}
	if h.CPUs != nil {
		all[telemetry.CPUs] = telemetry.LostIf(s.cpusLost)
	}
	if h.Units != nil || hasUnits {
		all[telemetry.Units] = telemetry.LostIf(h.Units == nil || s.reloadsLost || s.unitsLost)
	}
	return all
}
