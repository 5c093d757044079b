package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

func TestRedact(t *testing.T) {
	r := NewRedactor()
	r.Add(Pod, "du")
	r.Add(Pod, "du-0")
	r.Add(Namespace, "ran")
	r.Add(Namespace, "kube-system")
	r.Add(Container, "du") // has the replacement of the pod
	r.AddUnit("gnss.service")
	r.AddUnit(`a\x2db.service`)
	r.addCgroup("system.slice/cron.service/x")
	for in, want := range map[string]string{
		"ran/du-0/du: du-0 of ran":      "namespace-1/pod-2/pod-1: pod-2 of namespace-1",
		"produce due du0 ducks ranks":   "produce due du0 ducks ranks",
		"kube-system default":           "kube-system default",
		"gnss.service gnss gnssx":       "unit-1.service unit-1 gnssx",
		`a\x2db.service "a\\x2db"`:      `unit-2.service "unit-2"`,
		"/system.slice/cron.service":    "/system.slice/unit-3.service",
		"a cron of cron.services":       "a cron of cron.services",
		`"line\ndu-0"`:                  `"line\npod-2"`,
		"du-0du-0":                      "pod-1-0du-0",
		"":                              "",
		"pod=ran/du-0\tcontainer=du\n":  "pod=namespace-1/pod-2\tcontainer=pod-1\n",
		"cri-containerd-du.scope -du- ": "cri-containerd-pod-1.scope -pod-1- ",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("Text(%q) = %q; want %q", in, got, want)
		}
	}
	got, err := r.JSON([]byte(`{"du":"du","pool":"ran","n":12345678901234567890,"list":[{"a":"x du-0"}]}`))
	if want := `{"du":"pod-1","list":[{"a":"x pod-2"}],"n":12345678901234567890,"pool":"ran"}`; err != nil || compact(t, got) != want {
		t.Errorf("JSON = %s, %v; want %s", got, err, want)
	}
	files, missing := r.Redact([]File{{"a.json", []byte("{du")}, {"b.txt", []byte("du")}})
	if len(files) != 1 || string(files[0].Data) != "pod-1" || len(missing) != 1 {
		t.Errorf("Redact = %s, %s; want the invalid document in missing", files, missing)
	}
}

// TestRedactUnits checks that common units stay, and that units whose names only start like
// a common one are replaced.
func TestRedactUnits(t *testing.T) {
	r := NewRedactor()
	own := []string{`system-acme\x2ddu.slice`, "acme-du@0.service", "podman-acme.service", "docker-acmecore.service", "crio-acme.service", "userdata-acme.service",
		"systemd-nspawn@acme.service", "user-acme.slice", `dev-disk-by\x2dlabel-ACME.swap`, "cri-containerd-acme.scope", "kubelet-acme.service"}
	common := []string{"kubepods.slice", "kubepods-burstable-pod0a_1b.slice", "kubelet-kubepods-besteffort.slice", "cri-containerd-0123456789abcdef.scope", "crio-conmon-0123456789abcdef.scope",
		"kubelet.service", "containerd.service", "docker.socket", "dbus-broker.service", "system.slice", "user-1000.slice", "user@0.service", "session-c1.scope", "init.scope",
		"system-getty.slice", `system-serial\x2dgetty.slice`, "getty@tty1.service", "systemd-journald.service", "systemd-udevd-kernel.socket", "dev-hugepages.mount", "-.mount"}
	for _, unit := range append(own, common...) {
		r.addCgroup("system.slice/" + unit)
	}
	for _, unit := range own {
		if got := r.Text("/system.slice/" + unit + "/x"); strings.Contains(strings.ToLower(got), "acme") || !strings.HasPrefix(got, "/system.slice/unit-") || !strings.HasSuffix(got, unit[strings.LastIndex(unit, "."):]+"/x") {
			t.Errorf("Text(%q) = %q; want a replacement", unit, got)
		}
	}
	for _, unit := range common {
		if got := r.Text(unit); got != unit {
			t.Errorf("Text(%q) = %q; want no change", unit, got)
		}
	}
	if got := r.Text("acme-du of acme-du@0.service"); got != "unit-2 of unit-2.service" {
		t.Errorf("a template and its instance become %q; want %q", got, "unit-2 of unit-2.service")
	}
}

// TestRedactAmbiguousNames checks that a name that is a number or a common word is replaced
// only in fields that hold names.
func TestRedactAmbiguousNames(t *testing.T) {
	r := NewRedactor()
	for _, name := range []string{"1", "cpuset", "shared", "4-5"} {
		r.Add(Container, name)
	}
	r.Add(Namespace, "ran")
	r.Add(Pod, "user")
	got, err := r.JSON([]byte(`{"name":"1","owner":"ran/user/shared","cpus":"1-3","value":"4-5","pod":"ran/user","reason":"1 of 4-5 in ran"}`))
	if want := `{"cpus":"1-3","name":"container-1","owner":"namespace-1/pod-1/container-3","pod":"namespace-1/pod-1","reason":"1 of 4-5 in namespace-1","value":"4-5"}`; err != nil || compact(t, got) != want {
		t.Errorf("JSON = %s, %v; want %s", compact(t, got), err, want)
	}
	line := `{"cgroup":"ran.slice/1","cpuset.cpus":"1","ran":"ran"}` + "\n"
	if got, want := string(r.Lines([]byte(line))), `{"cgroup":"namespace-1.slice/1","cpuset.cpus":"1","ran":"ran"}`+"\n"; got != want {
		t.Errorf("Lines = %s; want %s", got, want)
	}
	if got := r.Text("shared:\n  cpus: 1\n"); got != "shared:\n  cpus: 1\n" {
		t.Errorf("a configuration becomes %q; want %q", got, "shared:\n  cpus: 1\n")
	}
}

// TestAddLog checks that names in messages are replaced, even if no other source has them.
func TestAddLog(t *testing.T) {
	r := NewRedactor()
	for _, text := range []string{
		"pod acme-ran/acme-du-0 (and 3 more): requests CPUs", "/etc/tuned/active_profile: acme-low-latency", "/etc/crio/crio.conf.d/99-acme.conf: workloads.acme",
		`level=WARN cgroup=/system.slice/gone-acme.service error="Get \"https://api.acme.example:6443/x\": dial tcp: lookup api2.acme.example"`,
	} {
		r.AddLog(text)
		if got := r.Text(text); strings.Contains(got, "acme") {
			t.Errorf("Text(%q) = %q; want no acme", text, got)
		}
	}
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// FuzzRedact checks that every name is replaced at the start and end of a text, and between
// separators. Texts without names stay.
func FuzzRedact(f *testing.F) {
	f.Add("du-0", "ran/", ": x")
	f.Add(`a\x2db`, "", `"`)
	f.Add("é", "", " é")
	f.Add("a", "a ", " b")
	f.Fuzz(func(t *testing.T, name, before, after string) {
		r := NewRedactor()
		if r.Text(before) != before {
			t.Fatalf("without names %q is %q", before, r.Text(before))
		}
		r.Add(Pod, name)
		if isPublic(name) || isAmbiguous(name) || strings.Contains("pod-1", name) {
			return
		}
		for _, text := range []string{name, before + " " + name + "/" + after, name + " " + after, "x-" + name + "." + name} {
			for word := range strings.FieldsFuncSeq(r.Text(text), func(c rune) bool { return c == ' ' || c == '/' }) {
				if word == name {
					t.Fatalf("Text(%q) = %q; it contains %q", text, r.Text(text), name)
				}
			}
		}
	})
}

// FuzzAddLog checks that AddLog accepts every text, and that the names that it finds are
// replaced.
func FuzzAddLog(f *testing.F) {
	f.Add("pod=ran/du-0 container=du unit=gnss.service x=y")
	f.Add(`{"pod":"ran/du-0","node":"n1","image":"a/b:c"}`)
	f.Add(`pod="a \"b" container=a/b/c`)
	f.Fuzz(func(t *testing.T, text string) {
		r := NewRedactor()
		r.AddLog(text)
		for name, word := range r.words {
			if r.Text(name) == name && name != word && !isAmbiguous(name) {
				t.Fatalf("AddLog finds %q in %q, but Text keeps it", name, text)
			}
		}
	})
}

// TestRedactClaims checks that names of ResourceClaims, of their namespaces and of their requests are
// replaced in the status, in the history and in the log.
func TestRedactClaims(t *testing.T) {
	r := NewRedactor()
	s := &inspect.Status{
		Claims:   []inspect.Claim{{Namespace: "acme-ran", Name: "acme-cpus", Pod: "acme-ran/acme-du", Containers: []string{"acme-app"}, Parts: []inspect.ClaimPart{{Request: "cpu", Device: "numa0"}}}},
		Problems: []inspect.Problem{{Claim: "acme-ran/acme-old", Code: "Offline", Text: "CPU 5 of its own is offline, and kept for it"}},
		CPUs:     []inspect.CPU{{Owner: "claim acme-ran/acme-cpus"}},
	}
	s.Containers = []inspect.Container{{Namespace: "acme-ran", Pod: "acme-du", Name: "acme-app", Claims: []string{"acme-ran/acme-cpus"}, Code: "Claim", Reason: "runs on the CPUs of 1 ResourceClaim"}}
	r.AddStatus(s)
	r.AddEvents([]history.Event{{Claim: "acme-ran/acme-gone"}})
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.JSON(data)
	if text := string(got); err != nil || strings.Contains(text, "acme") || strings.Contains(text, `"request": "cpu"`) || !strings.Contains(text, `"owner": "claim namespace-1/claim-`) || !strings.Contains(text, `"device": "numa0"`) {
		t.Errorf("JSON = %s, %v; want replacements, and the device", text, err)
	}
	line := `level=WARN msg="problem appeared" claim=acme-ran/acme-log problem="claim acme-ran/acme-text: gets no CPUs" gone=acme-gone`
	r.AddLog(line)
	if got := r.Text(line); strings.Contains(got, "acme") {
		t.Errorf("Text = %s; want replacements", got)
	}
}
