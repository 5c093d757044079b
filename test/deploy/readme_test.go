package deploy

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write README.md and the reference of the chart")

// property is the part of a JSON schema that the README shows.
type property struct {
	Description, Type, Ref string
	Enum                   []string
	Keys                   []string // in the order of the schema
	Properties             map[string]*property
	Items                  *property
}

// readSchema reads a schema, in which $ref names a definition.
func readSchema(t *testing.T, node *yaml.Node, definitions map[string]*property) *property {
	t.Helper()
	p := &property{Properties: map[string]*property{}}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i].Value, node.Content[i+1]
		switch key {
		case "description":
			p.Description = value.Value
		case "type":
			p.Type = value.Value
		case "enum":
			for _, v := range value.Content {
				p.Enum = append(p.Enum, v.Value)
			}
		case "$ref":
			p.Ref = strings.TrimPrefix(value.Value, "#/definitions/")
		case "items":
			p.Items = readSchema(t, value, definitions)
		case "properties":
			for j := 0; j < len(value.Content); j += 2 {
				name := value.Content[j].Value
				p.Keys = append(p.Keys, name)
				p.Properties[name] = readSchema(t, value.Content[j+1], definitions)
			}
		}
	}
	if d := definitions[p.Ref]; d != nil {
		p.Type, p.Enum, p.Keys, p.Properties, p.Items = d.Type, d.Enum, d.Keys, d.Properties, d.Items
	}
	return p
}

// open reports whether the README lists the keys of an object. The keys of a configuration
// have other pages, and the keys of a part of a pod are defined by the API.
func (p *property) open(key string) bool {
	return len(p.Keys) > 0 && !strings.HasSuffix(key, "onfig") && !strings.HasSuffix(key, "affinity") &&
		!strings.HasSuffix(key, "resources") && !strings.HasSuffix(key, "updateStrategy")
}

// rows returns lines of the table for the keys of an object below prefix.
func (p *property) rows(t *testing.T, prefix string, defaults map[string]any) []string {
	t.Helper()
	var rows []string
	for _, name := range p.Keys {
		key, child := prefix+name, p.Properties[name]
		if child.Description == "" {
			t.Errorf("values.schema.json: %s has no description", key)
		}
		if child.open(key) {
			inner, _ := defaults[name].(map[string]any)
			rows = append(rows, child.rows(t, key+".", inner)...)
			continue
		}
		typ := child.Type
		if len(child.Enum) > 0 {
			typ = "`" + strings.Join(child.Enum, "`, `") + "`"
		}
		value := ""
		if v, has := defaults[name]; has {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			value = "`" + string(text) + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", key, typ, value, child.Description))
		if child.Items != nil && child.Items.open(key) && name == "profiles" {
			rows = append(rows, child.Items.rows(t, key+"[].", nil)...)
		}
	}
	return rows
}

// table is the common part of README.md and of the reference.
const table = `
helm refuses unknown values. A value of a profile replaces the value of the same name.

| value | type | default | description |
|---|---|---|---|
`

const reference = `# Values of the chart

This page lists each value of the chart in deploy/chart/cpupoold. ` + "`go test ./... -update`" + ` in test/deploy writes it from values.yaml and
values.schema.json. [Install](../how-to/install.md#helm) has examples.
` + table

const readme = `# Chart cpupoold

CPU pools for Kubernetes nodes. This file is made from values.yaml and values.schema.json by ` + "`go test ./... -update`" + ` in test/deploy.
docs/how-to/install.md describes the chart, and docs/reference/configuration.md the configuration.

    helm install cpupoold deploy/chart/cpupoold -n cpupoold --create-namespace --values values.yaml
    helm test cpupoold -n cpupoold
` + table

// TestChartReadme checks that README.md of the chart and docs/reference/helm-values.md describe
// each value. With -update it writes both files.
func TestChartReadme(t *testing.T) {
	read := func(file string, into any) {
		t.Helper()
		data, err := os.ReadFile(chartDir + "/" + file)
		if err == nil {
			err = yaml.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	var document struct {
		Definitions map[string]yaml.Node
	}
	read("values.schema.json", &document)
	definitions := map[string]*property{}
	for name, node := range document.Definitions {
		definitions[name] = readSchema(t, &node, nil)
	}
	var whole yaml.Node
	read("values.schema.json", &whole)
	var defaults map[string]any
	read("values.yaml", &defaults)
	rows := strings.Join(readSchema(t, whole.Content[0], definitions).rows(t, "", defaults), "")
	for file, want := range map[string]string{chartDir + "/README.md": readme + rows, docs + "reference/helm-values.md": reference + rows} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // documents are public
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s, see -update (-want +got):\n%s", file, d)
		}
	}
}
