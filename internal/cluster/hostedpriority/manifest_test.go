package hostedpriority

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the manifests of deploy/webhook/hosted-priority")

// TestDocument checks that the manifest has the classes of the table. `make docs` writes
// it.
func TestDocument(t *testing.T) {
	const file = "../../../deploy/webhook/hosted-priority/classes.yaml"
	c := Default()
	want := c.Manifests()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("%s is not what make docs writes (-table +file):\n%s", file, d)
	}
}
