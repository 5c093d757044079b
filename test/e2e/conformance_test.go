//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

var conformance = flag.String("conformance", "", "run the cases of TestConformance with a name that `regexp` matches; default: none")

// atATime is the number of cases that run at the same time. Most of their time is waiting. With more of them, an emulated node misses their
// deadlines.
const atATime = 3

// TestConformance checks that cases of Kubernetes' own tests pass on a node before cpupoold is installed, and after it.
func TestConformance(t *testing.T) {
	if *conformance == "" {
		t.Skip("takes half an hour: make test-conformance")
	}
	wanted, err := regexp.Compile(*conformance)
	if err != nil {
		t.Fatalf("-conformance: %v", err)
	}
	cases := slices.DeleteFunc(conformanceCases(), func(c conformanceCase) bool { return !wanted.MatchString(c.name) })
	if len(cases) == 0 {
		t.Fatalf("-conformance %q matches none of the cases in conformance_cases_test.go", *conformance)
	}
	tree := partsTree(t, "conformance")
	s := suite{program: filepath.Join(tree, "suite")}
	s.requireCases(t, cases)
	c := start(t, "8c2n")
	for _, image := range []string{"agnhost", "busybox", "pause"} {
		c.machines[0].bring(t, filepath.Join(tree, image+".tar"), "/root/"+image+".tar")
		c.run(t, "ctr", "--namespace", "k8s.io", "images", "import", "/root/"+image+".tar")
	}
	s.kubeconfig = filepath.Join(c.plane.dir, "super-admin.conf")
	c.kubectl(t, "kubectl taint node "+nodeName+" cpupoold.io/starting-") // without a daemon, the taint stays
	without := s.run(t, cases)
	c.install(t)
	with := s.run(t, cases)
	compare(t, cases, without, with)
}

// A suite is the program with Kubernetes' tests of nodes (test/vm/parts/conformance), and the cluster that it tests.
type suite struct{ program, kubeconfig string }

// requireCases fails the test if the suite lacks one of the cases: names change with versions of Kubernetes. Without this check, the failure would
// come half an hour later.
func (s suite) requireCases(t *testing.T, cases []conformanceCase) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), s.program, "-list-tests").Output()
	if err != nil {
		t.Fatalf("list the suite's cases: %v", err)
	}
	for _, c := range cases {
		if !strings.Contains(string(list), ": "+c.name+"\n") { // file and line precede the name
			t.Errorf("the suite lacks the case %q", c.name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// An outcome is the result of a case.
type outcome struct {
	state   string // passed, failed, skipped ...; without a report, the error
	took    time.Duration
	message string // of the failure
	output  string
}

// run runs all cases and returns their outcomes in the order of the cases.
func (s suite) run(t *testing.T, cases []conformanceCase) []outcome {
	t.Helper()
	outcomes := make([]outcome, len(cases))
	next := make(chan int)
	var workers sync.WaitGroup
	for range atATime {
		workers.Go(func() {
			for i := range next {
				outcomes[i] = s.runCase(t, cases[i].name)
				t.Logf("%s after %v: %s %s", outcomes[i].state, outcomes[i].took.Round(time.Second), cases[i].name, outcomes[i].message)
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	workers.Wait()
	return outcomes
}

// runCase runs the case with this name.
func (s suite) runCase(t *testing.T, name string) outcome {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*waitTimeout) // most cases have a limit of five minutes
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, "-kubeconfig", s.kubeconfig, "-provider", "local",
		"-ginkgo.focus", regexp.QuoteMeta(name)+"$", "-ginkgo.no-color", "-ginkgo.v", "-report-dir", dir, "-report-complete-ginkgo")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	text, err := cmd.CombinedOutput()
	o := outcome{took: time.Since(began), output: string(text)}
	if rerr := o.read(filepath.Join(dir, "ginkgo", "report.json"), name); rerr != nil {
		o.state = fmt.Sprintf("%v: %v", err, rerr)
	}
	return o
}

// read sets state and message of a case from the report of the suite.
func (o *outcome) read(report, name string) error {
	text, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(text, &reports); err != nil {
		return fmt.Errorf("read %s: %w", report, err)
	}
	for _, r := range reports {
		for _, spec := range r.SpecReports {
			if strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ") == name {
				o.state, o.message = spec.State, spec.Failure.Message
				return nil
			}
		}
	}
	return fmt.Errorf("%s has no case %q", report, name)
}

// compare logs a table of all outcomes. It fails the test for each case that has not passed both times.
func compare(t *testing.T, cases []conformanceCase, without, with []outcome) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "without\t\twith\t\tcase")
	for i, c := range cases {
		fmt.Fprintf(w, "%s\t%v\t%s\t%v\t%s\n", without[i].state, without[i].took.Round(time.Second), with[i].state, with[i].took.Round(time.Second), c.name)
	}
	w.Flush()
	t.Logf("%d cases:\n%s", len(cases), &table)
	for i, c := range cases {
		if o := without[i]; o.state != "passed" {
			t.Errorf("%s: %s without cpupoold: repair the node or choose another case\n%s", c.name, o.state, last(o.output))
		}
		if o := with[i]; o.state != "passed" {
			t.Errorf("%s: %s with cpupoold; the case is on the list for: %s\n%s", c.name, o.state, c.why, last(o.output))
		}
	}
}

// last returns the last 8000 bytes of a text.
func last(text string) string { return text[max(0, len(text)-8000):] }
