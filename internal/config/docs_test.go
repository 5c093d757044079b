package config_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// everyKey are the keys of testdata/full.txtar, from-shared.txtar and kubelet.txtar,
// which have all of them, in the form that the documentation gives them: partitions[].cpus.
func everyKey(t *testing.T) map[string]bool {
	t.Helper()
	keys := make(map[string]bool)
	for _, file := range []string{"testdata/full.txtar", "testdata/from-shared.txtar", "testdata/kubelet.txtar"} {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal(archive.Files[0].Data, &doc); err != nil {
			t.Fatal(err)
		}
		addKeys(keys, "", doc)
	}
	return keys
}

func addKeys(keys map[string]bool, key string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if key == "units" {
				name = "<unit>"
			}
			addKeys(keys, strings.TrimPrefix(key+"."+name, "."), value)
		}
	case []any:
		for _, value := range v {
			if _, ok := value.(map[string]any); ok {
				addKeys(keys, key+"[]", value)
			} else {
				keys[key] = true
			}
		}
	default:
		keys[key] = true
	}
}

// TestFullNamesEveryKey checks that full.txtar, and so the documentation, has every
// key.
func TestFullNamesEveryKey(t *testing.T) {
	full := everyKey(t)
	for _, key := range config.Keys() {
		if !full[key] {
			t.Errorf("testdata/full.txtar lacks %s", key)
		}
	}
}

// TestExamplesAreValid parses each YAML block of the documentation that is a
// configuration, or a part of one, on a machine with 16 CPUs.
func TestExamplesAreValid(t *testing.T) {
	for file, atLeast := range map[string]int{
		"docs/how-to/choose-pools.md": 2, "docs/how-to/confine-host-services.md": 1, "docs/how-to/grant-namespaces.md": 1,
		"docs/how-to/isolate-cpus.md": 2, "docs/how-to/mix-shared-cpus.md": 1, "docs/explanation/cpu-selection.md": 1, "docs/explanation/resource-claims.md": 1, "docs/tutorials/first-node.md": 2,
	} {
		examples := 0
		for i, block := range strings.Split(read(t, "../../"+file), "```")[1:] {
			text, isYAML := strings.CutPrefix(block, "yaml\n")
			if !isYAML || strings.Contains(text, "kind: Pod\n") {
				continue
			}
			if !strings.Contains(text, "apiVersion:") {
				text = "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n" + text
			}
			examples++
			if _, err := config.Parse([]byte(text), fmt.Sprintf("%s, block %d", file, i/2+1), config.Overrides{}, large()); err != nil {
				t.Error(err)
			}
		}
		if examples < atLeast {
			t.Errorf("%s: %d examples; want at least %d", file, examples, atLeast)
		}
	}
}

// large has 16 CPUs in two NUMA nodes, one in each of two packages.
func large() *topology.Topology {
	a, b := cpuset.Range(0, 7), cpuset.Range(8, 15)
	return &topology.Topology{
		Present: a.Union(b), Online: a.Union(b),
		Packages: []topology.Group{{ID: 0, CPUs: a}, {ID: 1, CPUs: b}},
		Nodes:    []topology.Node{{ID: 0, CPUs: a}, {ID: 1, CPUs: b}},
	}
}
