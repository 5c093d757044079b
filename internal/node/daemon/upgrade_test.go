package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// rewriteJournal replaces the journal on disk by one of another version.
func (n *node) rewriteJournal(version int, change func(map[string]any)) {
	n.T.Helper()
	name := filepath.Join(n.Dir, "journal.json")
	var f struct {
		Data json.RawMessage
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	var data map[string]any
	if err == nil {
		err = json.Unmarshal(f.Data, &data)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	if change != nil {
		change(data)
	}
	if b, err = durable.Encode(version, data); err == nil {
		err = durable.Write(name, b)
	}
	if err != nil {
		n.T.Fatal(err)
	}
}

// TestUpgradeMovesNobody checks that a daemon moves no container after it finds the journal of
// an older or newer build, whether it can read it or not. An unreadable journal is kept under
// another name; its originals are lost.
func TestUpgradeMovesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		version int
		change  func(map[string]any)
		aside   bool
	}{
		"the oldest version": {version: 1},
		"more than this daemon knows": {version: 2, change: func(data map[string]any) {
			data["novelty"] = map[string]any{"a": []int{1}}
			for _, key := range []string{"originals", "assignments"} {
				for _, record := range data[key].([]any) {
					record.(map[string]any)["novelty"] = "x"
				}
			}
		}},
		"a newer version": {version: 4, aside: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = nodefixture.CarvedYAML // only journal and kernel show which CPUs are exclusive
			one := n.RunContainer(n.RunPod("one", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			two := n.RunContainer(n.RunPod("two", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			agent := n.RunContainer(n.RunPod("agent", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 102})
			before := n.Dump()
			r := n.start()
			r.quiet()
			r.stop()
			placed, originals := n.Dump(), n.Journal().Originals
			if len(originals) == 0 || n.State(one).Effective.Len() != 2 || n.State(two).Effective.Len() != 1 || placed == before {
				t.Fatalf("nothing to upgrade\n%s", placed)
			}
			n.rewriteJournal(c.version, c.change)

			r = n.start()
			r.quiet()
			if d := cmp.Diff(placed, n.Dump()); d != "" {
				t.Errorf("somebody has moved (-before +after):\n%s", d)
			}
			n.AwaitCPUs(agent, "0-1")
			n.CheckAssigned()
			r.stop()
			after, err := filepath.Glob(filepath.Join(n.Dir, "journal.json.bad-*"))
			if err != nil {
				t.Fatal(err)
			}
			if aside := len(after) == 1; aside != c.aside {
				t.Errorf("journals set aside: %v; want one: %t", after, c.aside)
			}
			if c.aside {
				return
			}
			if d := cmp.Diff(originals, n.Journal().Originals); d != "" {
				t.Errorf("originals (-before +after):\n%s", d)
			}
			if _, err := n.restore(); err != nil {
				t.Fatal(err)
			}
			if restored := strings.ReplaceAll(n.Dump(), `cpus="0-7"`, `cpus=""`); restored != before {
				t.Errorf("restored by the other version (-before +after):\n%s", cmp.Diff(before, restored))
			}
		})
	}
}
