// Package prometheus shortens the durations of the rules of deploy/monitoring for a test, and queries a Prometheus for its
// alerts.
package prometheus

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// durations finds the durations of a rule file: for: and interval: of rules and groups, and the windows of expressions.
// Annotations have durations in words only.
var durations = regexp.MustCompile(`(?m)^(\s*(?:- )?(?:for|interval): *)(\d+[smh])()$|(\[)(\d+[smh])(\])`)

// Shorten divides every duration of a rule file by factor, which is at least 1. With factor 60, a condition that must hold for 5
// minutes must hold for 5 seconds. Thresholds that count events in a window stay the same, so that a test must cause events factor
// times as often.
func Shorten(rules string, factor int) (string, error) {
	if factor < 1 {
		return "", fmt.Errorf("shorten rules by %d: write a number from 1 on", factor)
	}
	changed := 0
	short := durations.ReplaceAllStringFunc(rules, func(all string) string {
		m := durations.FindStringSubmatch(all)
		before, text, behind := m[1]+m[4], m[2]+m[5], m[3]+m[6]
		d, err := time.ParseDuration(text)
		if err != nil { // the expression lets nothing else through
			return all
		}
		changed++
		return fmt.Sprintf("%s%dms%s", before, (d / time.Duration(factor)).Milliseconds(), behind)
	})
	if changed == 0 {
		return "", fmt.Errorf("shorten rules: there is no duration in them")
	}
	return short, nil
}

// alert is the line that names one.
var alert = regexp.MustCompile(`(?m)^\s*- alert: (\S+)$`)

// Names are the alerts of a rule file, in its order.
func Names(rules string) (names []string) {
	for _, m := range alert.FindAllStringSubmatch(strings.ReplaceAll(rules, "\r", ""), -1) {
		names = append(names, m[1])
	}
	return names
}
