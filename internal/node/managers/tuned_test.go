package managers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadTuned checks the profiles and the process that ReadTuned finds in files of tuned.
func TestReadTuned(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Tuned
		power bool // profiles set only frequency and C-states
	}{
		"nothing":    {power: true},
		"no profile": {files: map[string]string{"etc/tuned/active_profile": "\n"}, want: Tuned{Known: true}, power: true},
		"two profiles, and a process": {
			files: map[string]string{
				"etc/tuned/active_profile": "balanced realtime\n",
				"run/tuned/tuned.pid":      "7\n",
				"proc/7/cmdline":           "/usr/bin/python3\x00-Es\x00/usr/sbin/tuned\x00",
			},
			want: Tuned{Profiles: []string{"balanced", "realtime"}, Known: true, PID: 7},
		},
		"post-loaded": {
			files: map[string]string{"etc/tuned/active_profile": "balanced", "etc/tuned/post_loaded_profile": "powersave"},
			want:  Tuned{Profiles: []string{"balanced", "powersave"}, Known: true}, power: true,
		},
		"the process of another program": {files: map[string]string{"run/tuned/tuned.pid": "7", "proc/7/cmdline": "/bin/sh\x00"}, power: true},
		"a process ID that is a path":    {files: map[string]string{"run/tuned/tuned.pid": "../etc", "etc/cmdline": "tuned"}, power: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := ReadTuned(files(c.files))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.SetsPowerOnly() != c.power {
				t.Errorf("SetsPowerOnly is %t, want %t", !c.power, c.power)
			}
		})
	}
}
