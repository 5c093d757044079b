//go:build guest

package firstcpus_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// measured is one of the daemon's histograms of first placements.
type measured struct {
	count, sum float64
	least      float64 // how many of count are within the least bound, 1 ms
}

// The daemon's histograms, see docs/reference/metrics.md.
const (
	elapsedName = "cpupoold_placement_seconds"
	usedName    = "cpupoold_placement_exposure_cpu_seconds"
)

// samplePattern matches a sample of a histogram with the label path: name, path, bound of a bucket, value.
var samplePattern = regexp.MustCompile(`^(\w+)\{(?:[^}]*,)?path="(\w+)"(?:,le="([^"]+)")?\} (\S+)$`)

// placements reads the histograms from the text of /metrics: by name, then by path.
func placements(text string) (map[string]map[string]measured, error) {
	all := map[string]map[string]measured{elapsedName: {}, usedName: {}}
	for line := range strings.Lines(text) {
		m := samplePattern.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		i := strings.LastIndexByte(m[1], '_')
		byPath, known := all[m[1][:max(i, 0)]]
		if !known {
			continue
		}
		value, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return nil, fmt.Errorf("parse metric %q: %w", line, err)
		}
		h := byPath[m[2]]
		switch kind := m[1][i:]; {
		case kind == "_count":
			h.count = value
		case kind == "_sum":
			h.sum = value
		case kind == "_bucket" && m[3] == "0.001":
			h.least = value
		}
		byPath[m[2]] = h
	}
	return all, nil
}

// agree compares the daemon's histograms with the containers' reports. Each container is counted once; one that could not begin may be
// counted, too. A container that began outside must not count as always inside. The daemon may see more of them outside, before their
// first instruction.
func (n *course) agree() {
	n.Helper()
	started, outside := 0, 0
	for kind := range n.started {
		started += n.started[kind]
		outside += n.outside[kind]
	}
	var all map[string]map[string]measured
	n.Eventually("every container measured", func() error {
		text, err := n.metrics("cpupoold_placement_")
		if err != nil {
			return err
		}
		if all, err = placements(text); err != nil {
			return err
		}
		count := 0.0
		for _, h := range all[elapsedName] {
			count += h.count
		}
		if count < float64(started) || count > float64(started)+float64(n.unstarted.Load()) {
			return fmt.Errorf("%v placements for %d started containers:\n%s", count, started, text)
		}
		return nil
	})
	for _, name := range []string{elapsedName, usedName} {
		longer := 0.0
		for _, path := range slices.Sorted(maps.Keys(all[name])) {
			h := all[name][path]
			longer += h.count - h.least
			n.Logf("%s %s: %v, %v of them within 1 ms, %.3f s in all", name, path, h.count, h.least, h.sum)
		}
		if longer < float64(outside) {
			n.Errorf("%s: exposures of more than 1 ms = %v; want at least %d\n%s", name, longer, outside, n.Evidence())
		}
	}
}
