package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// lines returns the objects of a file with their lines, and the errors.
func lines(objects []manifest.Object, errs []error) (all []string) {
	for _, o := range objects {
		pod := ""
		if o.Pod != nil {
			pod = fmt.Sprintf(", container in line %d", o.PodLine("spec", "containers", "c"))
		}
		all = append(all, fmt.Sprintf("%d: %s %s/%s%s", o.Line(), o.APIVersion, o.Kind, o.Name, pod))
	}
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

// TestEach checks that Each calls its function with the objects, lines and errors that Objects
// returns, one item of a JSON list at a time.
func TestEach(t *testing.T) {
	const pod = `{
  "metadata": {"name": "p"},
  "spec": {"containers": [
    {"name": "c"}]}}`
	typed := strings.Replace(pod, "{", `{"apiVersion": "v1", "kind": "Pod",`, 1)
	for name, test := range map[string]struct {
		data  string
		calls int
	}{
		"YAML":              {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n---\nkind: Other\n", 1},
		"JSON":              {typed, 1},
		"list":              {`{"apiVersion": "v1", "kind": "List", "items": [` + typed + ",\n\n" + typed + `, {"kind": "Other"}]}`, 3},
		"same items":        {"{\"kind\": \"List\", \"items\": [" + typed + "," + typed + ",\n" + typed + "]}", 3},
		"list of one kind":  {`{"apiVersion": "v1", "kind": "PodList", "items": [` + "\n" + pod + ",\n" + pod + "\n]}", 2},
		"list in a list":    {`{"kind": "List", "items": [` + "\n" + `{"apiVersion": "v1", "kind": "PodList", "items": [` + pod + `]}]}`, 1},
		"two documents":     {`{"kind": "List", "items": [` + typed + "]}\n---\n" + typed, 1},
		"bad item":          {`{"kind": "List", "items": [` + "\n" + `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": 3}},` + "\n" + typed + `]}`, 2},
		"item of no object": {`{"kind": "List", "items": [null, 3, ` + typed + `]}`, 3},
		"no items":          {`{"kind": "List"}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []manifest.Object
			var errs []error
			calls := 0
			manifest.Each([]byte(test.data), func(o []manifest.Object, bad []error) bool {
				got, errs = append(got, o...), append(errs, bad...)
				calls++
				return true
			})
			if d := cmp.Diff(lines(manifest.Objects([]byte(test.data))), lines(got, errs)); d != "" || calls != test.calls {
				t.Errorf("%d calls, want %d (-Objects +Each):\n%s", calls, test.calls, d)
			}
		})
	}
	calls := 0
	manifest.Each([]byte(`{"kind": "List", "items": [{}, {}, {}]}`), func([]manifest.Object, []error) bool {
		calls++
		return calls < 2
	})
	if calls != 2 {
		t.Errorf("%d calls; want 2", calls)
	}
}
