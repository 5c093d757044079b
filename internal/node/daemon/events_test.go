package daemon

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestEventScopes lists each type of event with the least and the largest pass that it needs,
// on a loop without pods.
func TestEventScopes(t *testing.T) {
	failed := errors.New("failed")
	l := newNode(t).bareLoop(newNode(t).Host())
	_, upTo, _ := l.journal.BeginSave(l.now())
	got := make(map[string][]scope)
	for _, e := range []event{
		runtimeEvent{}, runtimeEvent{cri.Event{Kind: cri.ContainerStarted}}, streamChanged{}, listed{}, formulaFound{}, configLoaded{},
		podFetched{}, podFetched{lookup.PodStatus{Err: failed}}, containerFetched{}, containerFetched{lookup.ContainerStatus{Err: failed}},
		written{}, written{err: failed}, unitRead{}, recordRead{}, saved{upTo: upTo}, saved{err: failed},
		filesWritten{}, filesWritten{appcpus.Result{Err: failed}}, systemdReloaded{}, reloadsLost{}, unitsLost{}, unitWoken{}, unitResult{},
		hintsArrived{}, kubeletArrived{}, cpuWatchChanged{}, cpusChanged{}, treeWatched{}, permissionsChanged{}, tuned{},
		nriChanged{}, synchronized{}, podRun{}, podResized{}, podHint{}, containerHint{}, createRequest{}, startRequest{}, updateRequest{}, updateRequest{asked: cri.Resources{Shares: 2}}, updateSettled{}, resizeSeen{},
		moveRequest{}, refusedStopped{}, threadsScanned{}, claimChange{},
	} {
		name := reflect.TypeOf(e).String()
		name = name[strings.LastIndex(name, ".")+1:]
		s := scopeAll
		if x, ok := e.(scoped); ok {
			s = x.scope(l)
		}
		if !slices.Contains(got[name], s) {
			got[name] = append(got[name], s)
		}
	}
	want := make(map[string][]scope)
	for _, name := range eventTypes(t) {
		want[name] = []scope{scopeAll}
	}
	// The events that can need less than a full pass.
	maps.Copy(want, map[string][]scope{
		"createRequest": {scopeAnswer}, "startRequest": {scopeOne}, "podHint": {scopeAnswer}, "containerHint": {scopeAnswer},
		"runtimeEvent": {scopeOne, scopeAll}, "podFetched": {scopeAll, scopeOne}, "containerFetched": {scopeAll, scopeOne},
		"unitRead": {scopeOne}, "recordRead": {scopeOne}, "written": {scopeAnswer, scopeAll},
		"saved": {scopeNone, scopeAnswer}, "filesWritten": {scopeAnswer, scopeAll}, "threadsScanned": {scopeAnswer}, "updateRequest": {scopeAnswer, scopeAll},
	})
	for _, scopes := range []map[string][]scope{got, want} {
		for _, s := range scopes {
			slices.Sort(s)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scopes of events (-want +got):\n%s", diff)
	}
}

// eventTypes returns the types of events of this package, tests excepted.
func eventTypes(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "apply" || fn.Recv == nil {
				continue
			}
			typ := fn.Recv.List[0].Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			if name := typ.(*ast.Ident).Name; name != "Loop" { //nolint:errcheck,forcetypeassert // receivers are names
				names = append(names, name)
			}
		}
	}
	return names
}
