package nodefixture

import (
	"strings"
	"testing"
	"time"
)

// Timeout is the maximum time that a test waits for an effect on the fake node. A test
// that passes never reaches it.
const Timeout = 2 * time.Minute * slowdown

// Eventually waits until cond holds. After Timeout it fails the test with what and the
// values that details return.
func Eventually(t testing.TB, what string, cond func() bool, details ...func() string) {
	t.Helper()
	if Within(Timeout, cond) {
		return
	}
	lines := []string{"timed out: " + what}
	for _, d := range details {
		lines = append(lines, d())
	}
	t.Fatal(strings.Join(lines, "\n"))
}

// Within waits at most limit until cond holds. It reports whether cond held.
func Within(limit time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}
