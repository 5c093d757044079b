package preflight_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/node/preflight"
)

func TestParseCPUManagerState(t *testing.T) {
	for _, c := range []struct{ name, in, want, err string }{
		{"version 1", `{"policyName":"static","defaultCpuSet":"0,2-7","entries":{"a1":"1"},"checksum":353318690}`, "static", ""},
		{"version 2", `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`, "none", ""},
		{"version 3", `{"policyName":"static","defaultCpuSet":"0-7","entries":{"u":{"c":"1"}},"podEntries":{"u":{}},"checksum":1}`, "static", ""},
		{"version 4", `{"policyName":"static","defaultCpuSet":"0-7","checksum":1,"data":"{}","dataChecksum":2}`, "static", ""},
		{"keys of old kubelets in another case", `{"PolicyName":"none","defaultCPUSet":""}`, "none", ""},
		{"empty file", "", "", "unexpected end"},
		{"zeros after a crash", "\x00\x00\x00", "", "invalid character"},
		{"wrong type", `{"policyName":3}`, "", "cannot unmarshal"},
		{"no policy", `{}`, "", "policyName is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := preflight.ParseCPUManagerState([]byte(c.in))
			checkError(t, err, c.err)
			if got != c.want {
				t.Errorf("policy = %q; want %q", got, c.want)
			}
		})
	}
}

func TestParseKubeletConfig(t *testing.T) {
	for _, c := range []struct{ name, in, policy, driver, reserved, err string }{
		{"yaml", "cpuManagerPolicy: static\ncgroupDriver: systemd\nreservedSystemCPUs: 0-1\n", "static", "systemd", "0-1", ""},
		{"json", `{"cpuManagerPolicy":"static","reservedSystemCPUs":"0"}`, "static", "absent", "0", ""},
		{"a number", "reservedSystemCPUs: 0\n", "absent", "absent", "0", ""},
		{"null", "cpuManagerPolicy: null\ncgroupDriver: ~\n", "", "", "absent", ""},
		{"anchor", "x: &p static\ncpuManagerPolicy: *p\n", "static", "absent", "absent", ""},
		{"unknown keys are ignored", "featureGates: {A: true}\n", "absent", "absent", "absent", ""},
		{"empty", "", "absent", "absent", "absent", ""},
		{"a mapping", "cpuManagerPolicy: {a: b}\n", "", "", "", "line 1: cpuManagerPolicy: want a single value"},
		{"two problems", "cpuManagerPolicy: []\ncgroupDriver: []\n", "", "", "", "cgroupDriver"},
		{"not a mapping", "- a\n", "", "", "", "cannot unmarshal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := preflight.ParseKubeletConfig([]byte(c.in))
			checkError(t, err, c.err)
			if err != nil {
				return
			}
			got := []string{orAbsent(values, "cpuManagerPolicy"), orAbsent(values, "cgroupDriver"), orAbsent(values, "reservedSystemCPUs")}
			if diff := cmp.Diff([]string{c.policy, c.driver, c.reserved}, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseLocks(t *testing.T) {
	const locks = `1: POSIX  ADVISORY  WRITE 100 00:1a:7 0 EOF
2: FLOCK  ADVISORY  WRITE 200 00:1a:8 0 EOF
2: -> FLOCK  ADVISORY  WRITE 201 00:1a:9 0 EOF
3: OFDLCK ADVISORY  READ -1 00:1a:10 0 EOF
4: FLOCK
5: FLOCK  ADVISORY  READ 300 00:1a:11 0 EOF
`
	for id, want := range map[string]int{
		"00:1a:7":  0, // fcntl, not flock
		"00:1a:8":  200,
		"00:1a:9":  0, // waits for the lock
		"00:1a:10": 0,
		"00:1a:11": 300,
		"00:1a:1":  0,
	} {
		if got := preflight.ParseLocks([]byte(locks), id); got != want {
			t.Errorf("ParseLocks(%s) = %d; want %d", id, got, want)
		}
	}
}

func FuzzParseCPUManagerState(f *testing.F) {
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-7","entries":{"u":{"c":"1"}},"checksum":1,"data":"{}","dataChecksum":2}`))
	f.Add([]byte(`{"policyname":"none"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		policy, err := preflight.ParseCPUManagerState(b)
		if (err == nil) != (policy != "") {
			t.Errorf("policy %q with error %v", policy, err)
		}
	})
}

func FuzzParseKubeletConfig(f *testing.F) {
	f.Add([]byte("cpuManagerPolicy: static\nreservedSystemCPUs: 0-1\n"))
	f.Add([]byte(`{"cgroupDriver":"systemd"}`))
	f.Add([]byte("topologyManagerPolicy: restricted\nmemoryManagerPolicy: Static\n"))
	f.Add([]byte("x: &a [1]\ncpuManagerPolicy: *a\n"))
	f.Add([]byte("cpuManagerPolicy: !!binary aGk=\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := preflight.ParseKubeletConfig(b)
		if err != nil {
			return
		}
		// A file with only these keys has the same values.
		file, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		values, err := preflight.ParseKubeletConfig(file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for key, value := range values {
			if w, there := want[key]; there && utf8.ValidString(w) && w != value {
				t.Errorf("%s: %q; want %q", key, value, w)
			}
		}
	})
}

func FuzzParseLocks(f *testing.F) {
	f.Add([]byte("2: FLOCK  ADVISORY  WRITE 200 00:1a:8 0 EOF\n"), "00:1a:8")
	f.Add([]byte("2: -> FLOCK  ADVISORY  WRITE 201 00:1a:9 0 EOF"), "00:1a:9")
	f.Fuzz(func(t *testing.T, locks []byte, id string) {
		if pid := preflight.ParseLocks(locks, id); pid < 0 || pid > 0 && !strings.Contains(string(locks), id) {
			t.Errorf("process %d holds %q, which is in no line", pid, id)
		}
	})
}

func orAbsent(values map[string]string, key string) string {
	if value, there := values[key]; there {
		return value
	}
	return "absent"
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("error %v; want none", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v; want one with %q", err, want)
	}
}
