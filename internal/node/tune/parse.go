package tune

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
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
	mask, ok := new(big.Int).SetString(digits, 16)
	switch {
	case !ok || strings.ContainsAny(digits, "+-"):
		return cpuset.Set{}, fmt.Errorf("%q is not a mask of hexadecimal digits", layout.Clip(s, 80))
	case mask.BitLen() > nbits:
		return cpuset.Set{}, fmt.Errorf("mask %q has CPU %d, want CPUs below %d", layout.Clip(s, 80), mask.BitLen()-1, nbits)
	}
	var cpus []int
	for cpu := range mask.BitLen() {
		if mask.Bit(cpu) == 1 {
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
	var set cpuset.Set
	var err error
	switch {
	case mask != "":
		if set, err = parseHex(mask, nbits); err != nil {
			err = fmt.Errorf("IRQBALANCE_BANNED_CPUS: %w", err)
		}
	case list != "" && list != "-":
		if set, err = cpuset.Parse(list); err != nil {
			err = fmt.Errorf("IRQBALANCE_BANNED_CPULIST: %w", err)
		}
	}
	return set, err
}
