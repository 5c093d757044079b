package report

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	r := NewRedactor()
	r.Add(Pod, "du")
	r.Add(Pod, "du-0")
	r.Add(Namespace, "ran")
	r.Add(Namespace, "kube-system")
	r.Add(Container, "du") // is a pod's already
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
		t.Errorf("Redact = %s, %s; want the document left out that cannot be read", files, missing)
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

// FuzzRedact: a name that stands alone, at an end, or between what is no letter is gone,
// whatever it is and whatever stands around it; texts without names stay as they are.
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
		if public(name) || strings.Contains("pod-1", name) {
			return
		}
		for _, text := range []string{name, before + " " + name + "/" + after, name + " " + after, "x-" + name + "." + name} {
			for word := range strings.FieldsFuncSeq(r.Text(text), func(c rune) bool { return c == ' ' || c == '/' }) {
				if word == name {
					t.Fatalf("%q is in %q, made of %q", name, r.Text(text), text)
				}
			}
		}
	})
}

// FuzzAddLog: no log is too odd to look for names in, and those that are found are gone.
func FuzzAddLog(f *testing.F) {
	f.Add("pod=ran/du-0 container=du unit=gnss.service x=y")
	f.Add(`{"pod":"ran/du-0","node":"n1","image":"a/b:c"}`)
	f.Add(`pod="a \"b" container=a/b/c`)
	f.Fuzz(func(t *testing.T, text string) {
		r := NewRedactor()
		r.AddLog(text)
		for name, word := range r.words {
			if r.Text(name) == name && name != word {
				t.Fatalf("%q is found in %q, and stays", name, text)
			}
		}
	})
}
