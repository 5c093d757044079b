package manifest

import (
	"fmt"
	"regexp"
)

// amounts refuses amounts of resources with an exponent of three digits or more:
// Kubernetes' parser takes hours for some, and no machine has as much. v is what YAML or
// JSON decodes to.
func amounts(v any) error {
	endless := regexp.MustCompile(`[eE][+-]?[0-9]{3}`)
	return walk(v, false, func(text string) error {
		if endless.MatchString(text) {
			return fmt.Errorf("%.40q is no amount; write one such as 500m or 2Gi", text)
		}
		return nil
	})
}

// walk calls check for the texts that are amounts: those in maps of resources, and a few by
// themselves.
func walk(v any, within bool, check func(string) error) error {
	switch v := v.(type) {
	case string:
		if within {
			return check(v)
		}
	case []any:
		for _, item := range v {
			if err := walk(item, within, check); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range v {
			switch key {
			case "limits", "requests", "overhead", "capacity", "allocatable", "sizeLimit", "divisor":
				if err := walk(value, true, check); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			default:
				if err := walk(value, within, check); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
