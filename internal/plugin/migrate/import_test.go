package migrate_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var update = flag.Bool("update", false, "rewrite what is expected in testdata")

// machine has two threads on each core: 0 and 1, 2 and 3, and so on.
func machine(cpus int) *topology.Topology {
	all := cpuset.Range(0, cpus-1)
	t := &topology.Topology{Present: all, Online: all}
	for cpu := 0; cpu < cpus; cpu += 2 {
		t.Cores = append(t.Cores, topology.Group{CPUs: cpuset.Range(cpu, cpu+1)})
	}
	return t
}

// options are in the comment of an archive, one a line.
func options(t *testing.T, comment string) migrate.Options {
	var o migrate.Options
	for line := range strings.Lines(comment) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "documents":
			o.Reading = migrate.Documents
		case "machine":
			o.Topology = machine(16)
		case "role":
			o.Role = value
		case "profile":
			o.Profile = value
		case "pool-config":
			o.PoolConfig = value
		case "nri-policy":
			o.NRIPolicy = value
		case "namespace":
			o.Namespaces = append(o.Namespaces, value)
		case "", "#":
		default:
			if !strings.HasPrefix(line, "#") {
				t.Fatalf("unknown option %q", line)
			}
		}
	}
	return o
}

// TestImport checks the result of importing the files of each archive.
func TestImport(t *testing.T) {
	archives, err := filepath.Glob("testdata/import/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var files []migrate.File
			var rest []txtar.File
			want := map[string]string{}
			for _, f := range a.Files {
				if expected, ok := strings.CutPrefix(f.Name, "want/"); ok {
					want[expected] = string(f.Data)
					continue
				}
				rest = append(rest, f)
				files = append(files, migrate.File{Name: f.Name, Data: f.Data})
			}
			got := map[string]string{}
			result, err := migrate.Import(files, options(t, string(a.Comment)))
			if err != nil {
				got["error"] = err.Error() + "\n"
			} else {
				got["config.yaml"] = string(result.Configuration)
			}
			for _, note := range result.Notes {
				got["notes"] += note.String() + "\n"
			}
			if *update {
				a.Files = rest
				for _, expected := range []string{"config.yaml", "notes", "error"} {
					if got[expected] != "" {
						a.Files = append(a.Files, txtar.File{Name: "want/" + expected, Data: []byte(got[expected])})
					}
				}
				if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil { //nolint:forbidigo // a test's own file
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestContradictionNamesBoth checks that the error about a contradiction names both files and
// both values.
func TestContradictionNamesBoth(t *testing.T) {
	_, err := migrate.Import([]migrate.File{
		{Name: "a.conf", Data: []byte(workloads("0-1"))},
		{Name: "dir/b.conf", Data: []byte(workloads("0-3"))},
	}, migrate.Options{})
	if !errors.Is(err, migrate.ErrContradiction) {
		t.Fatalf("error is %v", err)
	}
	for _, part := range []string{"a.conf", "dir/b.conf", "0-1", "0-3", "partitions.management.cpus"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error = %q; want %s in it", err, part)
		}
	}
}

func workloads(cpus string) string {
	return "[crio.runtime.workloads.management]\nactivation_annotation = \"target.workload.openshift.io/management\"\n" +
		"annotation_prefix = \"resources.workload.openshift.io\"\nresources = { cpushares = 0, cpuset = \"" + cpus + "\" }\n"
}

// TestImportIsBounded checks that a file that names another one many times is refused
// before it is read as often.
func TestImportIsBounded(t *testing.T) {
	body := strings.Repeat("#", 1<<19)
	data := "kind: MachineConfig\nspec:\n  config:\n    storage:\n      files:\n      - &f {path: /etc/crio/crio.conf, contents: {source: 'data:," + body + "'}}\n" +
		strings.Repeat("      - *f\n", 90)
	_, err := migrate.Import([]migrate.File{{Name: "a.yaml", Data: []byte(data)}}, migrate.Options{})
	if err == nil || !strings.Contains(err.Error(), "have more than 8388608 bytes") {
		t.Fatalf("error %v; want one with the limit", err)
	}
}
