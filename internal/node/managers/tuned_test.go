package managers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadTuned checks the profiles and settings that ReadTuned finds in files of tuned.
func TestReadTuned(t *testing.T) {
	type set struct {
		aspect          Aspect
		key, value, src string
	}
	for name, c := range map[string]struct {
		files      map[string]string
		profiles   []string
		pid        int
		settings   []set
		unreadable int
	}{
		"nothing":    {},
		"no profile": {files: map[string]string{"etc/tuned/active_profile": "\n", "usr/lib/tuned/a/tuned.conf": "[scheduler]\nisolated_cores=1\n"}},
		"two profiles, the later one and /etc take precedence": {
			files: map[string]string{
				"etc/tuned/active_profile":   "a b\n",
				"usr/lib/tuned/a/tuned.conf": "[irqbalance]\nbanned_cpus=1\n",
				"usr/lib/tuned/b/tuned.conf": "[irqbalance]\nbanned_cpus=2\n",
				"etc/tuned/b/tuned.conf":     "[irqbalance]\nbanned_cpus = \"3\"\n",
				"run/tuned/tuned.pid":        "7\n",
				"proc/7/cmdline":             "/usr/bin/python3\x00-Es\x00/usr/sbin/tuned\x00",
			},
			profiles: []string{"a", "b"}, pid: 7,
			settings: []set{{Interrupts, "irqbalance.banned_cpus", "3", "/etc/tuned/b/tuned.conf"}},
		},
		"post-loaded": {
			files:    map[string]string{"etc/tuned/post_loaded_profile": "p", "etc/tuned/profiles/p/tuned.conf": "[systemd]\ncpu_affinity=0-1"},
			profiles: []string{"p"},
			settings: []set{{Services, "systemd.cpu_affinity", "0-1", "/etc/tuned/profiles/p/tuned.conf"}},
		},
		"directories as configured": {
			files: map[string]string{
				"etc/tuned/active_profile":   "a",
				"etc/tuned/tuned-main.conf":  "# x\ndaemon = 1\nprofile_dirs = /opt/low,/opt/high\n",
				"opt/low/a/tuned.conf":       "[irq]\naffinity=1\n",
				"opt/high/a/tuned.conf":      "[irq_x]\ntype=irq\naffinity=2\n",
				"usr/lib/tuned/a/tuned.conf": "[scheduler]\nisolated_cores=1\n",
			},
			profiles: []string{"a"},
			settings: []set{{Interrupts, "irq_x.affinity", "2", "/opt/high/a/tuned.conf"}},
		},
		"groups with an affinity and without": {
			files: map[string]string{"etc/tuned/active_profile": "a", "etc/tuned/a/tuned.conf": "[scheduler]\ngroup.one=0:f:2:*:^x:y\ngroup.two=0:f:2:3:^x\ngroup.three=0:f\n" +
				"default_irq_smp_affinity=ignore\nsched_min_granularity_ns=1\n[cpu]\ngovernor=performance\nload_threshold=2\n"},
			profiles: []string{"a"},
			settings: []set{{Threads, "scheduler.group.two", "0:f:2:3:^x", "/etc/tuned/a/tuned.conf"}, {Power, "cpu.governor", "performance", "/etc/tuned/a/tuned.conf"}},
		},
		"includes in a circle, one that is missing, functions": {
			files: map[string]string{
				"etc/tuned/active_profile": "a",
				"etc/tuned/a/tuned.conf":   "[main]\ninclude=b, ${f:exec:x} -optional gone\n[variables]\nx=1\n",
				"etc/tuned/b/tuned.conf":   "[main]\ninclude=a\n[sysfs]\n/proc/irq/*/smp_affinity=${x}\n/sys/devices/system/cpu/cpu*/cpuidle/state3/disable=1\n/sys/kernel/mm=${f:x:1}\n",
			},
			profiles: []string{"a"}, unreadable: 1,
			settings: []set{
				{Interrupts, "/proc/irq/*/smp_affinity", "1", "/etc/tuned/b/tuned.conf"},
				{Power, "/sys/devices/system/cpu/cpu*/cpuidle/state3/disable", "1", "/etc/tuned/b/tuned.conf"},
			},
		},
		"a name that is a path": {files: map[string]string{"etc/tuned/active_profile": "../../etc"}, profiles: []string{"../../etc"}, unreadable: 1},
		"another's process":     {files: map[string]string{"run/tuned/tuned.pid": "7", "proc/7/cmdline": "/bin/sh\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ReadTuned(files(c.files))
			var settings []set
			for _, s := range got.Settings {
				settings = append(settings, set{s.Aspect, s.Key, s.Value, s.Source})
			}
			if diff := cmp.Diff(c.settings, settings, cmp.AllowUnexported(set{})); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.profiles, got.Profiles); diff != "" || got.PID != c.pid || len(got.Unreadable) != c.unreadable {
				t.Errorf("process %d, unreadable %v, profiles (-want +got):\n%s", got.PID, got.Unreadable, diff)
			}
		})
	}
}

// FuzzTuned checks that the parser accepts every profile, returns bounded values, and
// returns the same result at a second call.
func FuzzTuned(f *testing.F) {
	f.Add("[main]\ninclude=b\n[variables]\ninclude=/etc/tuned/v.conf\nx=${y}\n[scheduler]\nisolated_cores=${x}\n")
	f.Add("x=1\n y\n[irqbalance\nbanned_cpus=\n[cpu]\ntype=scheduler\nisolated_cores=${f:a:${x}}\n")
	f.Add("[variables]\na=${b}${b}\nb=${a}${a}\n[sysfs]\n/proc/irq/1/smp_affinity=${a}${b}\n")
	f.Add("profile_dirs=/usr/lib/tuned,,/../x\n[bootloader]\ncmdline=+isolcpus=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		all := files(map[string]string{
			"etc/tuned/active_profile": "a b", "etc/tuned/a/tuned.conf": text, "etc/tuned/b/tuned.conf": text, "etc/tuned/v.conf": text, "etc/tuned/tuned-main.conf": text,
			"etc/tuned/post_loaded_profile": text,
		})
		got := ReadTuned(all)
		if diff := cmp.Diff(got, ReadTuned(all), cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })); diff != "" {
			t.Errorf("second call (-first +second):\n%s", diff)
		}
		keys := make(map[string]bool)
		for _, s := range got.Settings {
			if s.Aspect == "" || keys[s.Key] || len(s.Value) > max(maxSetting, len(text)) || !strings.HasPrefix(s.Source, "/") {
				t.Errorf("setting %+v", s)
			}
			keys[s.Key] = true
		}
	})
}
