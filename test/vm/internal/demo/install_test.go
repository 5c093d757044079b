package demo

import (
	"os"
	"strings"
	"testing"
)

// TestTutorialShowsConfiguration checks that the tutorial shows the configuration of the
// demo.
func TestTutorialShowsConfiguration(t *testing.T) {
	const tutorial = "../../../../docs/tutorials/first-node.md"
	text, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```yaml\n"+configuration+"```\n") {
		t.Errorf("%s does not contain the configuration of the demo:\n%s", tutorial, configuration)
	}
}
