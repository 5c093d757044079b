package hostslices_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parse returns "key=value" of each assignment.
func parse(b []byte) []string {
	var all []string
	for _, a := range hostslices.ParseUnitFile(b) {
		all = append(all, a.Key+"="+a.Value)
	}
	return all
}

func TestParseUnitFile(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"a service", "[Unit]\nDescription=DU\n\n[Service]\nExecStart=/usr/bin/du --cpus=4\nAllowedCPUs=0-3\n",
			[]string{"Description=DU", "ExecStart=/usr/bin/du --cpus=4", "AllowedCPUs=0-3"}},
		{"blanks and line ends of Windows", "AllowedCPUs = 0 1 \r\n", []string{"AllowedCPUs=0 1"}},
		{"comments", "# AllowedCPUs=1\n ; AllowedCPUs=2\n", nil},
		{"a line that goes on", "AllowedCPUs=0 \\\n# not this\n 1\nCPUWeight=5\n", []string{"AllowedCPUs=0  1", "CPUWeight=5"}},
		{"a backslash at the end", "Environment=A=b\\\\\nAllowedCPUs=1\n", []string{`Environment=A=b\\`, "AllowedCPUs=1"}},
		{"empty assignment", "AllowedCPUs=\n", []string{"AllowedCPUs="}},
		{"a section with =", "[a=b]\n", nil},
		{"no assignment", "AllowedCPUs\n\\", nil},
		{"no line end", "CPUAffinity=1", []string{"CPUAffinity=1"}},
	} {
		if diff := cmp.Diff(c.want, parse([]byte(c.in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func FuzzParseUnitFile(f *testing.F) {
	f.Add([]byte("[Service]\nAllowedCPUs=0-3\n# c\nCPUAffinity=0 \\\n 1\n"))
	f.Add([]byte("=\n==\n[=\n\\"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all := parse(b)
		// The result, written as a file, has the same assignments.
		var file strings.Builder
		for _, a := range all {
			file.WriteString(a + "\n")
		}
		if diff := cmp.Diff(all, parse([]byte(file.String()))); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}

// TestSettings checks the CPUs from administrators' files, in the order of systemd.
func TestSettings(t *testing.T) {
	const (
		vendor   = "/usr/lib/systemd/system/system.slice"
		dropIn   = "/etc/systemd/system/system.slice.d/10-cpus.conf"
		late     = "/etc/systemd/system/system.slice.d/60-cpus.conf"
		lasting  = "/etc/systemd/system.control/system.slice.d/50-AllowedCPUs.conf"
		ours     = "/run/systemd/system.control/system.slice.d/50-AllowedCPUs.conf"
		oursToo  = "/run/systemd/transient/init.scope.d/50-AllowedCPUs.conf"
		unread   = "/etc/systemd/system/system.slice.d/unread.conf"
		unread50 = "/etc/systemd/system.control/user.slice.d/50-AllowedCPUs.conf"
	)
	content := map[string]string{
		vendor: "[Unit]\nDescription=System Slice\n", dropIn: "[Slice]\nAllowedCPUs=0 1, 3\n", late: "[Slice]\nAllowedCPUs=\nAllowedCPUs=6\n",
		lasting: "[Slice]\nAllowedCPUs=\nAllowedCPUs=0-3\n", ours: "[Slice]\nAllowedCPUs=0-1\n", oursToo: "[Scope]\nAllowedCPUs=0-1\n",
		"reset": "AllowedCPUs=\n", "more": "AllowedCPUs=7\n", "bad": "AllowedCPUs=everything\n",
	}
	read := func(name string) ([]byte, error) {
		if text, ok := content[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrPermission
	}
	for name, c := range map[string]struct {
		files []string
		want  hostslices.Setting
	}{
		"nothing":                            {nil, hostslices.Setting{}},
		"the vendor's":                       {[]string{vendor}, hostslices.Setting{}},
		"our own":                            {[]string{vendor, ours, oursToo}, hostslices.Setting{}},
		"a drop-in":                          {[]string{vendor, dropIn, ours}, hostslices.Setting{CPUs: cpuset.Of(0, 1, 3), File: dropIn}},
		"one that adds":                      {[]string{dropIn, "more"}, hostslices.Setting{CPUs: cpuset.Of(0, 1, 3, 7), File: "more"}},
		"one that resets and adds":           {[]string{dropIn, late}, hostslices.Setting{CPUs: cpuset.Of(6), File: late}},
		"one that resets":                    {[]string{dropIn, "reset"}, hostslices.Setting{}},
		"one that systemd skips":             {[]string{dropIn, "bad"}, hostslices.Setting{CPUs: cpuset.Of(0, 1, 3), File: dropIn}},
		"set for good":                       {[]string{lasting}, hostslices.Setting{CPUs: cpuset.Range(0, 3), File: lasting}},
		"set for good, cannot be read":       {[]string{unread50}, hostslices.Setting{CPUs: cpuset.Of(5), File: unread50}},
		"cannot be read, and may be nothing": {[]string{unread}, hostslices.Setting{}},
	} {
		if d := cmp.Diff(c.want, hostslices.Settings(c.files, cpuset.Of(5), read)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestOfTheHost checks that the files of the host take precedence over mounted ones.
func TestOfTheHost(t *testing.T) {
	content := map[string]string{"/proc/1/root/a": "host", "/a": "container", "/b": "mounted"}
	read := hostslices.OfTheHost(func(name string) ([]byte, error) {
		if text, ok := content[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	})
	for name, want := range map[string]string{"/a": "host", "/b": "mounted"} {
		if got, err := read(name); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if got, err := read("/c"); err == nil {
		t.Errorf("/c: %q; want an error", got)
	}
}
