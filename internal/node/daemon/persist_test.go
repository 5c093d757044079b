package daemon

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
)

// TestOlderAnswerKeepsRecord checks that an answer of the runtime that was requested before
// the daemon changed the record does not replace the record: the daemon would persist the
// same value again.
func TestOlderAnswerKeepsRecord(t *testing.T) {
	s := newScenario(t, &txtar.Archive{})
	err := errors.Join(s.start(), s.pod("web", nil), s.create("web/app", map[string]string{"shares": "512"}))
	if err != nil {
		t.Fatal(err)
	}
	old := inventory.FetchContainer(t.Context(), &s.loop.Host, s.ids["web/app"], s.loop.inventory.Clock())
	if old.Err != nil {
		t.Fatal(old.Err)
	}
	s.settle()
	if !strings.Contains(s.out.String(), "persist web/app") {
		t.Fatalf("the CPUs are not persisted:\n%s", s.out.String())
	}
	s.out.Reset()
	s.event(containerFetched{old})
	s.settle()
	if err := s.wait("10s"); err != nil { // a write that was made a moment ago is repeated later
		t.Fatal(err)
	}
	if got := s.out.String(); strings.Contains(got, "persist") {
		t.Errorf("after the older answer:\n%s", got)
	}
}
