// Page writes docs/reference/benchmarks.md from the samples in bench/results.
//
//	go run ./cmd/page RESULTS PAGE
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/bench/samples"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: page RESULTS PAGE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// run renders the samples in directory results to the file page.
func run(results, page string) error {
	text, err := render(results)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// head is the part of the page above the facts about the machine.
const head = `# Benchmarks

This page lists how fast cpupoold is, and how much memory and CPU time it uses. ` + "`make docs`" + ` writes it from the samples in
[bench/results](../../bench/results); do not edit it. [bench/README.md](../../bench/README.md) describes the benchmarks.
[Cost](../explanation/cost.md) explains the figures.

`

// facts is the text between the facts about the machine and the table.
const facts = `
"Best" is the best sample; for a ratio, it is the ratio of the best samples, and can be worse than the median. Other work on the machine
increases the times, so compare the load average first. Rows marked "VM" come from a virtual machine with emulated CPUs, which are 10 to 50
times slower. There, only ratios, counts and memory are meaningful.

`

// tail is the part of the page below the table.
const tail = `
## Repeat the measurements

    make bench-all                # all parts; the virtual machines take an hour
    make bench-all PARTS=host     # only the benchmarks on this machine, without virtual machines
    make bench-check              # one minute: only allocations and instructions, compared with bench/record.txt

` + "`make bench-all`" + ` replaces the samples in ` + "`bench/results`" + ` and this page. To compare two sets of samples, use benchstat:

    git show HEAD:bench/results/go.txt >old.txt
    go tool -modfile=bench/go.mod benchstat old.txt bench/results/go.txt
`

// render returns the page.
func render(results string) (string, error) {
	meta, err := os.ReadFile(filepath.Join(results, "meta.txt"))
	if err != nil {
		return "", err
	}
	out := strings.Builder{}
	out.WriteString(head)
	for line := range strings.Lines(string(meta)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			return "", fmt.Errorf("meta.txt: %q is not of the form key: value", line)
		}
		fmt.Fprintf(&out, "- %s: %s\n", key, value)
	}
	out.WriteString(facts)
	p, err := read(results)
	if err != nil {
		return "", err
	}
	out.WriteString("| measured | median | best | limit | |\n|---|---|---|---|---|\n")
	for _, r := range rows() {
		text, err := r.format(p)
		if err != nil {
			return "", fmt.Errorf("row %q: %w", r.text, err)
		}
		out.WriteString(text)
	}
	out.WriteString(tail)
	return out.String(), nil
}

// read returns the samples of all parts in directory results.
func read(results string) (parts, error) {
	all := parts{}
	for _, part := range []string{"go", "flag", "compare", "kubelet", "pods", "vm", "limits"} {
		file := filepath.Join(results, part+".txt")
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		all[part], err = samples.Read(f, file)
		_ = f.Close() // only read
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
