package restore

import "testing"

// TestUnitQuota checks the conversion of cpu.max to CPUQuotaPerSecUSec.
func TestUnitQuota(t *testing.T) {
	for value, want := range map[string]string{
		"max 100000":           "infinity",
		"200000 100000":        "2000000",
		"1000 1000000":         "1000",
		"":                     "",
		"200000":               "",
		"200000 0":             "",
		"-1 100000":            "",
		"99999999999999 10000": "",
	} {
		if got, err := unitQuota(value); got != want || (err == nil) != (want != "") {
			t.Errorf("unitQuota(%q) = %q, %v; want %q", value, got, err, want)
		}
	}
}
