package cpuclaim

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// driver is the driver that selectors require.
type driver int

const (
	silent  driver = iota // no selector mentions the driver
	unclear               // a selector mentions it in an expression that this package does not understand
	foreign               // another driver
	own                   // the driver of CPUs
)

func (d driver) use() Use {
	switch d {
	case own:
		return CPUs
	case unclear:
		return Unclear
	}
	return Other
}

// driverOf returns the driver of a device that meets all selectors.
func driverOf(selectors []resourcev1.DeviceSelector) driver {
	all := silent
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		switch name, is := requiredBy(s.CEL.Expression); {
		case is && name == Driver:
			return own
		case is:
			all = foreign
		case strings.Contains(s.CEL.Expression, Driver):
			all = max(all, unclear)
		}
	}
	return all
}

// requiredBy returns the name of the driver that an expression of CEL requires. It understands expressions that are
// a comparison of device.driver with a text, or several terms with && of which one is such a comparison.
func requiredBy(expression string) (name string, found bool) {
	if strings.Contains(expression, "||") || strings.ContainsRune(expression, '?') || strings.Contains(strings.Join(strings.Fields(expression), ""), "!(") {
		return "", false
	}
	for term := range strings.SplitSeq(expression, "&&") {
		left, right, compared := strings.Cut(strings.Trim(term, "() \t\r\n"), "==")
		left, right = strings.TrimSpace(left), strings.TrimSpace(right)
		if right == "device.driver" {
			left, right = right, left
		}
		if !compared || left != "device.driver" || len(right) < 2 {
			continue
		}
		quote, text := right[0], right[1:len(right)-1]
		if (quote == '"' || quote == '\'') && right[len(right)-1] == quote && !strings.ContainsAny(text, `"'\`) {
			return text, true
		}
	}
	return "", false
}
