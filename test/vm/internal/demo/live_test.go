package demo

import (
	"strings"
	"testing"
)

// TestCounted checks that only a row of the intruder on its CPU counts.
func TestCounted(t *testing.T) {
	const good = `CPU  OWNER                  KIND       COMMAND  CGROUP                          SWITCHES  TIME
8    default/late-node/app  user task  sh       /system.slice/intruder.service  12        9.000ms

Share of exclusive CPU time without foreign tasks: 99.9 % (foreign tasks: 9.000ms of 10.0 s, with 12 switches)
`
	for name, c := range map[string]struct{ report, want string }{
		"counted":     {good, ""},
		"another CPU": {strings.Replace(good, "\n8 ", "\n9 ", 1), "has not counted"},
		"another one": {strings.Replace(good, "intruder", "chrony", 1), "has not counted"},
		"no share":    {strings.Replace(good, "Share", "no share", 1), "no share"},
		"nothing":     {"", "has not counted"},
	} {
		t.Run(name, func(t *testing.T) {
			err := counted(c.report, 8, "default/late-node/app")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("counted = %v; want %q", err, c.want)
			}
		})
	}
}
