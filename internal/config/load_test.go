package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// machine has the CPUs 0-7, of which 7 is offline.
func machine() *topology.Topology {
	return &topology.Topology{Present: cpuset.Range(0, 7), Online: cpuset.Range(0, 6)}
}

func TestParse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var text, flags string
			var want *txtar.File
			for i := range archive.Files {
				switch f := &archive.Files[i]; f.Name {
				case "config.yaml":
					text = string(f.Data)
				case "flags":
					flags = string(f.Data)
				case "want":
					want = f
				default:
					t.Fatalf("unknown section %s", f.Name)
				}
			}
			got := outcome(config.Parse([]byte(text), "config.yaml", parseFlags(t, flags), machine()))
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func parseFlags(t *testing.T, lines string) config.Overrides {
	t.Helper()
	var o config.Overrides
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(strings.Fields(lines)); err != nil {
		t.Fatal(err)
	}
	return o
}

// outcome is the configuration as JSON, or its problems, one a line.
func outcome(c *config.Config, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err.Error() + "\n"
	}
	return string(data) + "\n"
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := config.Load(path, config.Overrides{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of a missing file = %v; want %v", err, fs.ErrNotExist)
	}
	if err := os.WriteFile(path, []byte("kind: CPUPoolConfiguration\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(path, config.Overrides{}, nil)
	want := path + ": apiVersion: is missing; write config.cpupoold.io/v1alpha1"
	if err == nil || err.Error() != want {
		t.Errorf("Load = %v; want %s", err, want)
	}
	c, err := config.Load("", parseFlags(t, "--log-format=json"), nil)
	if err != nil || c.LogFormat != config.LogJSON {
		t.Errorf("Load without a file = %+v, %v; want defaults with logFormat json", c, err)
	}
}

func TestResolve(t *testing.T) {
	const text = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
guaranteed:
  cpus: 4-7
`
	c, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Resolve(machine())
	if err != nil {
		t.Fatal(err)
	}
	got := []string{p.Partitions[0].CPUs.String(), p.Shared.String(), p.Guaranteed.String(), p.Offline.String()}
	if diff := cmp.Diff([]string{"0-1", "2-3", "4-6", "7"}, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}

	_, err = c.Resolve(&topology.Topology{Present: cpuset.Range(0, 3), Online: cpuset.Range(0, 3)})
	problem, ok := errors.AsType[*config.Problem](err)
	if !ok || problem.File != "config.yaml" || problem.Line != 7 || problem.Key != "guaranteed.cpus" || problem.Value != "4-7" {
		t.Errorf("Resolve on a machine without the CPUs = %v; want a problem of guaranteed.cpus in config.yaml:7", err)
	}
}

// TestResolveSockets checks that align-by-socket is refused on the machines on which
// the kubelet refuses it.
func TestResolveSockets(t *testing.T) {
	const text = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
guaranteed:
  cpus: 4-7
  options:
    align-by-socket: true
`
	c, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := cpuset.Range(0, 7)
	m := &topology.Topology{
		Present: all, Online: all, Nodes: []topology.Node{{CPUs: all}},
		Packages: []topology.Group{{ID: 0, CPUs: cpuset.Range(0, 3)}, {ID: 1, CPUs: cpuset.Range(4, 7)}},
	}
	const want = `config.yaml:6: guaranteed.options.align-by-socket: "true": the machine has more sockets (2) than NUMA nodes (1); write false`
	if _, err := c.Resolve(m); err == nil || err.Error() != want {
		t.Errorf("Resolve with two sockets in one node = %v; want %s", err, want)
	}
	m.Nodes = append(m.Nodes, topology.Node{ID: 1})
	if _, err := c.Resolve(m); err != nil {
		t.Errorf("Resolve with two sockets and two nodes = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Add([]byte("\xff\xfe"))
	f.Add([]byte("a: &a [*a, *a]\n<<: *a"))
	f.Add([]byte("guaranteed: &g {options: *g, overrides: [*g], from: *g}\nunits: {*g : *g, ? [a] : {cpus: 1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse(data, "f", config.Overrides{}, machine())
		if (c == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v; want one of the two", c, err)
		}
		if err != nil {
			return
		}
		p, err := c.Resolve(machine())
		if err != nil {
			t.Fatalf("Parse accepts what Resolve refuses: %v", err)
		}
		if p.Shared.IsEmpty() || p.FromShared && !p.Guaranteed.IsSubsetOf(p.Shared) || !p.FromShared && p.Guaranteed.Overlaps(p.Shared) {
			t.Fatalf("shared is %s and guaranteed is %s, from shared: %t", p.Shared, p.Guaranteed, p.FromShared)
		}
		for i, part := range c.Pools.On(machine()).Partitions {
			if part.Auto && (part.CPUs.IsEmpty() || c.Pools.StrictReservation && part.CPUs.Overlaps(p.Shared) || part.CPUs.Overlaps(p.Guaranteed)) {
				t.Fatalf("partition %d with auto has CPUs %s; shared is %s and guaranteed is %s", i, part.CPUs, p.Shared, p.Guaranteed)
			}
		}
		if c.Pools.Guaranteed.FloorPercent > 0 && (p.Floor < 1 || p.Floor > p.Shared.Len()) {
			t.Fatalf("shared is %s with the floor %d", p.Shared, p.Floor)
		}
		again, err := config.Parse(data, "f", config.Overrides{}, nil)
		if err != nil || outcome(again, nil) != outcome(c, nil) {
			t.Fatalf("a second Parse = %v, %v", again, err)
		}
	})
}

// TestParseWithoutMachine checks that pools that overlap on every machine are reported with other
// problems, although the machine is unknown, and not by themselves.
func TestParseWithoutMachine(t *testing.T) {
	const text = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions: [{type: management, cpus: "0-1", namespaces: [a]}]
shared: {cpus: "1-200"}
guaranteed: {cpus: "1-2"}
`
	got := outcome(config.Parse([]byte(text+"other: 1\n"), "config.yaml", config.Overrides{}, nil))
	for _, want := range []string{
		`config.yaml:4: shared.cpus: "1-200": CPU 1 is in partitions[0].cpus too; take it out of one of them`,
		`config.yaml:6: other: "1": is not a known key; known here: apiVersion, `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%swant %s", got, want)
		}
	}
	if strings.Contains(got, "the machine has") {
		t.Errorf("problems of a machine that is unknown:\n%s", got)
	}
	if _, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, nil); err != nil {
		t.Errorf("without other problems: %v; Resolve reports overlaps", err)
	}
}
