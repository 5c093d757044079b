package replay

import (
	"strings"
	"testing"
	"time"
)

// Report repeats a run as subtests of t: same names, same outcomes, with the output of each as its log. It reports whether all is
// well, and fails t if not. A run without a single test is not well: it would pass whatever the code does.
func Report(t *testing.T, run *Run) bool {
	t.Helper()
	ok := true
	for _, test := range run.Tests {
		ok = report(t, test) && ok
	}
	if output := strings.TrimRight(run.Output, "\n"); output != "" {
		t.Logf("output outside of tests:\n%s", output)
	}
	switch {
	case run.Outcome == Unfinished:
		t.Errorf("the test binary ended with neither PASS nor FAIL: it, or the guest, has crashed")
		return false
	case run.Outcome == Fail && ok:
		t.Errorf("the test binary failed outside of any test")
		return false
	case len(run.Tests) == 0:
		t.Errorf("the test binary ran no tests")
		return false
	}
	return ok
}

func report(parent *testing.T, test *Test) bool {
	parent.Helper()
	return parent.Run(test.Name, func(t *testing.T) {
		for _, sub := range test.Sub {
			report(t, sub)
		}
		if output := strings.TrimRight(test.Output, "\n"); output != "" {
			t.Logf("in the guest, after %v:\n%s", test.Elapsed.Round(time.Millisecond), output)
		}
		switch test.Outcome {
		case Fail:
			t.Fail()
		case Unfinished:
			t.Error("did not finish")
		case Skip:
			t.SkipNow()
		}
	})
}
