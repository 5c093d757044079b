package usage_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/usage"
)

// TestPrepare checks the errors of command lines that are not understood, with their commands. Other
// command lines have no error.
func TestPrepare(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "",
		"--help":                    "",
		"help":                      "",
		"help lint":                 "",
		"lint --help":               "",
		"completion":                "",
		"completion bash":           "",
		"lint -f x":                 "",
		"explain a":                 "",
		"lnit":                      `p: unknown command "lnit" for "p"; did you mean lint?`,
		"other":                     `p: unknown command "other" for "p"`,
		"lnit -f x":                 `p: unknown command "lnit" for "p"; did you mean lint?`,
		"help lnit":                 `p help: unknown command "lnit" for "p"; did you mean lint?`,
		"completion bahs":           `p completion: unknown command "bahs" for "p completion"; did you mean bash?`,
		"lint pod.yaml":             `p lint: lint takes no argument "pod.yaml"; name files with -f`,
		"lint --filname x":          "p lint: unknown flag: --filname; did you mean --filename?",
		"lint --entirely-different": "p lint: unknown flag: --entirely-different",
		"lint -quiet":               "p lint: unknown shorthand flag: 'q' in -quiet; did you mean --quiet?",
		"explain":                   "p explain: accepts 1 arg(s), received 0",
		"explain a b":               "p explain: accepts 1 arg(s), received 2",
	} {
		run := func(*cobra.Command, []string) error { return nil }
		root := &cobra.Command{Use: "p", Args: cobra.NoArgs, RunE: run, SilenceErrors: true, SilenceUsage: true}
		lint := &cobra.Command{Use: "lint", Args: cobra.NoArgs, RunE: run}
		lint.Flags().StringP("filename", "f", "", "")
		lint.Flags().Bool("quiet", false, "")
		root.AddCommand(lint, &cobra.Command{Use: "explain", Args: cobra.ExactArgs(1), RunE: run})
		usage.Prepare(root)
		root.SetOut(io.Discard)
		root.SetArgs(strings.Fields(line))
		got := ""
		if err := root.Execute(); err != nil {
			got = err.Error()
			if bad, is := errors.AsType[*usage.Error](err); is {
				got = bad.Command + ": " + got
			}
		}
		if got != want {
			t.Errorf("%s: %s; want %s", line, got, want)
		}
	}
}
