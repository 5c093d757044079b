package tune

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parseSetup returns the hexadecimal mask after BANNED in irqbalance's answer to setup.
func parseSetup(s string, nbits int) (banned cpuset.Set, err error) {
	words := strings.Fields(s)
	for i, w := range words {
		if w != "BANNED" {
			continue
		}
		if i+1 == len(words) {
			return cpuset.Set{}, nil // some versions print an empty mask without digits
		}
		mask, err := parseHex(words[i+1], nbits)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("irqbalance: banned CPUs: %w", err)
		}
		return mask, nil
	}
	return cpuset.Set{}, errors.New("irqbalance: the answer to setup has no banned CPUs")
}

// parseHex allows more digits if they are zero: irqbalance prints one for each CPU of its build.
func parseHex(s string, nbits int) (cpuset.Set, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(s), "0x"), ",", "")
	if digits == "" {
		return cpuset.Set{}, errors.New("no digits")
	}
	var cpus []int
	for i := range len(digits) {
		n, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 4)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("%q is not a mask of hexadecimal digits", clip(s))
		}
		for bit := range 4 {
			cpu := 4*i + bit
			if n&(1<<bit) == 0 {
				continue
			}
			if cpu >= nbits {
				return cpuset.Set{}, fmt.Errorf("mask %q has CPU %d, want CPUs below %d", clip(s), cpu, nbits)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpuset.Of(cpus...), nil
}

// parseBanned reads an environment file of irqbalance. The mask takes precedence over the list.
func parseBanned(text string, nbits int) (cpuset.Set, error) {
	mask, list := "", ""
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(strings.TrimPrefix(key, "export ")) {
		case "IRQBALANCE_BANNED_CPUS":
			mask = value
		case "IRQBALANCE_BANNED_CPULIST":
			list = value
		}
	}
	switch {
	case mask != "":
		set, err := parseHex(mask, nbits)
		if err != nil {
			return set, fmt.Errorf("IRQBALANCE_BANNED_CPUS: %w", err)
		}
		return set, nil
	case list != "" && list != "-":
		set, err := cpuset.Parse(list)
		if err != nil {
			return set, fmt.Errorf("IRQBALANCE_BANNED_CPULIST: %w", err)
		}
		return set, nil
	}
	return cpuset.Set{}, nil
}

func clip(s string) string {
	const longest = 80
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return s
}
