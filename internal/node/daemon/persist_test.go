package daemon

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cri"
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
	old := lookup.FetchContainer(t.Context(), &s.loop.Host, s.ids["web/app"], s.loop.inventory.Clock())
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

// TestUpdateWithUnknownRecord checks the reply to an update of a container whose record is
// unknown. With an update without CPUs the runtime writes its recorded CPUs. Another container
// can have those CPUs now.
func TestUpdateWithUnknownRecord(t *testing.T) {
	s := newScenario(t, &txtar.Archive{})
	err := errors.Join(s.start(), s.pod("web", nil), s.create("web/app", map[string]string{"shares": "512"}), s.begin("web/app"))
	if err != nil {
		t.Fatal(err)
	}
	s.settle()
	id := s.ids["web/app"]
	path := s.loop.inventory.Objects().Container(id).Path
	cpus := s.loop.cache.Current(path).CPUs
	update := func(asked cri.Resources) cri.Resources {
		t.Helper()
		q := waits.Ask[cri.Resources](nil)
		updateRequest{id, asked, q}.apply(s.loop)
		a := <-q.Reply()
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		return a.Value
	}
	s.loop.cache.NoteMissingUpdate(path, cpus)
	for _, asked := range []cri.Resources{{Shares: 1024}, {Mems: "0"}, {CPUs: "5"}} {
		if got := update(asked); got.CPUs != cpus.String() {
			t.Errorf("record unknown, %+v: CPUs %q, want %s", asked, got.CPUs, cpus)
		}
	}
	containerFetched{lookup.FetchContainer(t.Context(), &s.loop.Host, id, 0)}.apply(s.loop)
	for _, asked := range []cri.Resources{{Shares: 2048}, {Mems: "0"}} {
		if got := update(asked); got.CPUs != "" {
			t.Errorf("record read, %+v: CPUs %q, want none", asked, got.CPUs)
		}
	}
}
