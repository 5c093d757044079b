package vm_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm"
)

// beforeClaims is a revision that reads versions 1 and 2 of the journal, and no ResourceClaims.
const beforeClaims = "5852c6ac0def69d12591f0c3071e2f0c2bd0eb2b"

// TestOlderJournal checks that the real program of an earlier revision refuses a journal with
// ResourceClaims, and reads the journal after their end. The program reads the journal for a dry run of
// restore, because its daemon needs a node. The daemon uses the same function.
func TestOlderJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an earlier revision")
	}
	program, err := vm.BuildRevision(t.Context(), beforeClaims, "cmd/cpupoold")
	if errors.Is(err, vm.ErrNoRevision) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	boot, err := kernelfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	claim := pools.Claim{UID: "u", Namespace: "ran", Name: "du", PodUID: "p", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}}
	for name, c := range map[string]struct {
		journal undo.Document
		want    string // part of the output
		fails   bool
	}{
		"prepared claim":         {undo.Document{Claims: []pools.Claim{claim}}, "journal cannot be used: damaged: version 3, this program reads 1 to 2", true},
		"CPUs of a claim":        {undo.Document{Assignments: []pools.Assignment{{Key: pools.Key{Container: "cpus|numa0|", Claim: "u"}, CPUs: cpuset.Of(1)}}}, "version 3, this program reads 1 to 2", true},
		"after the claim's end":  {undo.Document{Assignments: []pools.Assignment{{Key: pools.Key{PodUID: "p", Container: "app"}, CPUs: cpuset.Of(1)}}}, "0 values would be restored", false},
		"claims of another boot": {undo.Document{BootID: "another", Claims: []pools.Claim{claim}}, "version 3, this program reads 1 to 2", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config, journal := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "journal.json")
			// No runtime answers: the program ends before it reads containers of this machine.
			err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
stateDir: %[1]s
runDir: %[1]s/run
containerRuntimeEndpoint: %[1]s/none.sock
node: {enabled: false}
`, dir), 0o600)
			if err == nil {
				if c.journal.BootID == "" {
					c.journal.BootID = boot
				}
				err = undo.File{Name: journal}.Save(c.journal)
			}
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), program, "restore", "--dry-run", "--config", config).CombinedOutput()
			t.Logf("%s", out)
			if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
				t.Errorf("restore --dry-run of %.7s: %v, %q; want %q", beforeClaims, err, out, c.want)
			}
		})
	}
}
