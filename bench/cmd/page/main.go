// Page writes docs/reference/benchmarks.md from the samples in bench/results, and the figures of
// these benchmarks into the other pages.
//
//	go run ./cmd/page RESULTS REPOSITORY
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// pagePath is the path of the page in the repository.
const pagePath = "docs/reference/benchmarks.md"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: page RESULTS REPOSITORY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

// run writes the page and the changed figures into the repository. It prints the rows without
// samples.
func run(results, repository string) error {
	p, err := render(results)
	if err != nil {
		return err
	}
	for _, anchor := range p.missing {
		fmt.Fprintf(os.Stderr, "page: left out row %s: no samples; make bench takes them\n", anchor)
	}
	changed, err := p.figures(os.DirFS(repository))
	if err != nil {
		return err
	}
	changed[pagePath] = p.text
	for name, text := range changed {
		if err := os.WriteFile(filepath.Join(repository, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// head is the part of the page above the facts about the machine.
const head = `# Benchmarks

This page lists how fast cpupoold is, and how much memory and CPU time it uses. ` + "`make bench`" + ` measures and writes it. ` + "`make docs`" + `
writes it again from the samples in [bench/results](../../bench/results); do not edit it. [bench/README.md](../../bench/README.md)
describes the benchmarks. [Cost](../explanation/cost.md) explains the figures.

`

// facts is the text between the facts about the machine and the table.
const facts = `
- **Host** rows come from the machine above. Other work on it increases the times, so compare the load average first.
- **VM** rows come from a virtual machine with emulated CPUs, which are 10 to 50 times slower. There, only ratios and memory are meaningful.
- **Ratios** compare times of the same run on the same input. The cell names the program that takes so many times as long.
- **Limits** are aims of this project.

`

// tail is the part of the page below the table.
const tail = `
## Figures of others

We did not measure these figures. No row above compares with them.

- **kubelet, Topology Manager.** On a machine with 8 NUMA nodes, the search for the best hint of a pod with one GPU took nearly 21 minutes
  ([kubernetes#131738](https://github.com/kubernetes/kubernetes/issues/131738), 13 May 2025).
- **nri-plugins, balloons.** With 100 containers and more than 600 interrupts, the first message of the runtime can take longer than its limit
  of 2 seconds ([nri-plugins#746](https://github.com/containers/nri-plugins/issues/746), 10 August 2026).

## Repeat the measurements

    make bench                # all parts; the virtual machines take hours
    make bench PARTS=host     # only the benchmarks on this machine, without virtual machines
    make bench-check          # two minutes: only allocations and instructions, compared with bench/record.txt

` + "`make bench`" + ` replaces the samples in ` + "`bench/results`" + ` and this page. To compare two sets of samples, use benchstat:

    git show HEAD:bench/results/go.txt >old.txt
    go tool -modfile=bench/go.mod benchstat old.txt bench/results/go.txt
`

// page is the rendered page.
type page struct {
	text    string
	values  map[string]string // of the rows with samples, by anchor
	missing []string          // anchors of the rows without samples
}

// render returns the page.
func render(results string) (*page, error) {
	meta, err := os.ReadFile(filepath.Join(results, "meta.txt"))
	if err != nil {
		return nil, err
	}
	out := strings.Builder{}
	out.WriteString(head)
	for line := range strings.Lines(string(meta)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			return nil, fmt.Errorf("meta.txt: %q is not of the form key: value", line)
		}
		fmt.Fprintf(&out, "- <a id=%q></a>%s: %s\n", "meta-"+key, key, value)
	}
	out.WriteString(facts)
	all, err := read(results)
	if err != nil {
		return nil, err
	}
	p := &page{values: map[string]string{}}
	out.WriteString("| figure | compared with | value or ratio | how measured | how to repeat |\n|---|---|---|---|---|\n")
	for _, r := range rows() {
		v, err := r.value(all)
		if errors.Is(err, errNoSamples) {
			p.missing = append(p.missing, r.anchor)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", r.anchor, err)
		}
		out.WriteString(r.format(v))
		p.values[r.anchor] = quantity(v.v, r.unit)
	}
	out.WriteString(tail)
	p.text = out.String()
	return p, nil
}

// read returns the samples of all parts in directory results. A part without a file has no samples.
func read(results string) (parts, error) {
	all := parts{}
	for _, part := range []string{"go", "compare", "kubelet", "topology", "pods", "vm", "live"} {
		file := filepath.Join(results, part+".txt")
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
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
