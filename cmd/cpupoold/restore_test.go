package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// restoreConfig returns an empty directory, and a configuration with its directories in there.
func restoreConfig(t *testing.T) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
stateDir: %[1]s/state
runDir: %[1]s/run
node: {enabled: false}
`, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, file
}

// TestRestoreWithClaims checks that a restore without --force leaves a journal with claims as it is, and
// names the claims. A forced restore removes the journal.
func TestRestoreWithClaims(t *testing.T) {
	boot, err := kernelfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	some := []string{"du", "ru"}
	original := undo.Original{Path: "kubepods.slice/gone.scope", File: "cpuset.cpus"}
	for name, c := range map[string]struct {
		args      []string
		boot      string
		claims    []string
		originals []undo.Original
		code      int
		stdout    string // part of the output
		stderr    string
		kept      bool // the journal
	}{
		"refused": {boot: boot, claims: some, code: exitError, kept: true,
			stderr: "the journal has prepared ResourceClaims (ran/du, ran/ru), and their containers would lose the CPUs; delete the pods of the claims while a daemon runs, or use --force"},
		"refused, with originals": {boot: boot, claims: some, originals: []undo.Original{original}, code: exitError, kept: true, stderr: "(ran/du, ran/ru)"},
		"refused after a reboot":  {boot: "earlier", claims: some, code: exitError, kept: true, stderr: "(ran/du, ran/ru)"},
		"many claims": {boot: boot, claims: strings.Fields("a b c d e f g h i j k l"), code: exitError, kept: true,
			stderr: "(ran/a, ran/b, ran/c, ran/d, ran/e, ran/f, ran/g, ran/h, ran/i, ran/j and 2 more)"},
		"dry run":               {args: []string{"--dry-run"}, boot: boot, claims: some, kept: true, stdout: "ResourceClaims are prepared, so a restore needs --force: ran/du, ran/ru\n"},
		"dry run as JSON":       {args: []string{"--dry-run", "-o", "json"}, boot: boot, claims: some, kept: true, stdout: `"ran/ru"`},
		"forced":                {args: []string{"--force"}, boot: boot, claims: some, stdout: "0 values restored, 0 cgroups had ended\nResourceClaims forgotten: ran/du, ran/ru\n"},
		"forced after a reboot": {args: []string{"--force"}, boot: "earlier", claims: some, stdout: "the machine has booted"},
		"no claims":             {boot: boot, kept: true, stdout: "0 values restored"},
		"no claims, and forced": {args: []string{"--force"}, boot: boot, kept: true, stdout: "0 values restored"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, config := restoreConfig(t)
			d := undo.Document{BootID: c.boot, Originals: c.originals}
			for _, name := range c.claims {
				d.Claims = append(d.Claims, pools.Claim{UID: name, Namespace: "ran", Name: name, PodUID: "p", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}})
			}
			journal := filepath.Join(dir, "state", "journal.json")
			if err := (undo.File{Name: journal, RunDir: filepath.Join(dir, "run")}).Save(d); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(journal)
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			code := execute(t.Context(), streams{out: &stdout, err: &stderr}, append([]string{"restore", "--config", config}, c.args...))
			if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) || (stderr.Len() > 0) != (code == exitError) {
				t.Errorf("exit code %d, standard output %q, standard error %q; want %d, %q, %q", code, &stdout, &stderr, c.code, c.stdout, c.stderr)
			}
			after, err := os.ReadFile(journal)
			if kept := err == nil && bytes.Equal(before, after); kept != c.kept || !c.kept && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("journal is kept: %t, %v; want %t", kept, err, c.kept)
			}
		})
	}
}

// TestRestoreWaits checks that the command keeps running: the kubelet would restart a pod of
// deploy/uninstall/restore.yaml that ends.
func TestRestoreWaits(t *testing.T) {
	_, file := restoreConfig(t)
	for _, c := range []struct {
		flag  string
		waits bool
	}{{"--wait", true}, {"--wait=false", false}} {
		t.Run(c.flag, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				var stdout, stderr bytes.Buffer
				code, ended := 0, false
				go func() {
					code = execute(ctx, streams{out: &stdout, err: &stderr}, []string{"restore", "--config", file, c.flag})
					ended = true
				}()
				synctest.Wait()
				if !strings.Contains(stdout.String(), "0 values restored") {
					t.Fatalf("standard output %q, standard error %q; want 0 values restored", &stdout, &stderr)
				}
				if ended == c.waits {
					t.Errorf("ended without a signal: %t; want %t", ended, !c.waits)
				}
				end()
				synctest.Wait()
				if !ended || code != exitOK {
					t.Errorf("after a signal: ended %t with exit code %d; want %d", ended, code, exitOK)
				}
			})
		})
	}
}

// TestPrintRestored checks that a dry run and a restore print the same changes.
func TestPrintRestored(t *testing.T) {
	scope := undo.Original{Path: "kubepods.slice/a.scope", File: "cpuset.cpus", Container: "c1"}
	slice := undo.Original{Path: "system.slice", File: "cpuset.cpus", Unit: "system.slice"}
	r := restore.Report{Gone: 1, Note: "the journal is damaged", Changes: []restore.Change{
		{Original: scope, From: "4-5", To: "0-7"}, {Original: slice, From: "0-1"},
	}}
	dry := r
	dry.DryRun = true
	r.Restored = []undo.Original{slice}
	r.Differs = []undo.Difference{
		{Original: scope, Now: "0-7", Harmless: true, Reason: "the same"},
		{Original: slice, Now: "0-1", Reason: "busy"},
		{Original: scope, Now: "0-7", Harmless: true, Reason: "the same"},
	}
	irq := func(name string) tune.Knob { return tune.Knob{Kind: tune.IRQ, Name: name} }
	r.Settings.Differs = []tune.Difference{
		{Knob: irq("24"), Original: "0-7", Now: "0-3", Reason: "no effect"}, {Knob: irq("25"), Original: "4", Now: "1,4", Harmless: true, Reason: "another process"},
	}
	const said = `2 values would be restored, 1 cgroups have ended
the journal is damaged
TO RESTORE              FILE         FROM  TO
kubepods.slice/a.scope  cpuset.cpus  4-5   0-7
system.slice            cpuset.cpus  0-1   -
`
	const done = `3 values restored, 1 cgroups had ended
the journal is damaged
RESTORED                FILE         FROM  TO
kubepods.slice/a.scope  cpuset.cpus  4-5   0-7
system.slice            cpuset.cpus  0-1   -
DIFFERS  OF  WAS  IS   BECAUSE
irq/24   -   0-7  0-3  no effect
1 setting of the host keeps the value of another process, with the CPUs that the daemon had removed (listed with -o json)
DIFFERS       FILE         WAS  IS   BECAUSE
system.slice  cpuset.cpus  -    0-1  busy
2 values have another text and the same effect: all CPUs or NUMA nodes instead of none (listed with -o json)
`
	for _, c := range []struct {
		report restore.Report
		want   string
	}{
		{dry, said},
		{r, done},
	} {
		var out bytes.Buffer
		if err := layout.Print(&out, func(w *layout.Writer) { printRestored(w, c.report) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, out.String()); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
	}
}

// TestRestoreByHalf checks that the restored values are printed, and that the error has
// the others.
func TestRestoreByHalf(t *testing.T) {
	half := errors.New("irqbalance does not answer")
	done := restore.Report{Restored: []undo.Original{{File: "cpuset.cpus"}}}
	for name, c := range map[string]struct {
		report restore.Report
		err    error
		output format
		shows  string
	}{
		"all":             {done, nil, asTable, "1 values restored"},
		"half":            {done, half, asTable, "1 values restored"},
		"half, as JSON":   {done, half, asJSON, `"restored"`},
		"nothing at all":  {restore.Report{}, half, asTable, ""},
		"nothing to do":   {restore.Report{}, nil, asTable, "0 values restored"},
		"one that stayed": {restore.Report{Differs: []undo.Difference{{Reason: "busy"}}}, half, asTable, "busy"},
	} {
		var out bytes.Buffer
		err := (&app{streams: streams{out: &out}}).showRestored(c.report, c.err, c.output)
		if !errors.Is(err, c.err) || !strings.Contains(out.String(), c.shows) || c.shows == "" && out.Len() > 0 {
			t.Errorf("%s: %v, %q; want %v, and %q", name, err, &out, c.err, c.shows)
		}
	}
}
