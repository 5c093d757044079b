package spelling_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// TestNear checks which known word a misspelt word means.
func TestNear(t *testing.T) {
	known := []string{"Pod", "Deployment", "DaemonSet"}
	for word, want := range map[string]string{
		"pod":         "Pod",
		"Pods":        "Pod",
		"Deploymnet":  "Deployment",
		"daemonsets":  "DaemonSet",
		"Pod":         "",
		"Foo":         "",
		"StatefulSet": "",
		"":            "",
	} {
		if got := spelling.Near(word, known); got != want {
			t.Errorf("Near(%q) = %q, want %q", word, got, want)
		}
	}
}
