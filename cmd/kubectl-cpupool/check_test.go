package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

// TestCheck runs check on the clusters in testdata/check: a file is the answer at its path, and
// want is the output. A path without a file is forbidden, and one with "missing" is not found.
func TestCheck(t *testing.T) {
	names, err := filepath.Glob("testdata/check/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("cases: %v, %v", names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			answers, want := map[string]string{}, ""
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
				} else {
					answers["/"+f.Name] = string(f.Data)
				}
			}
			config := kubeconfig(t, func(w http.ResponseWriter, r *http.Request) {
				switch body, ok := answers[r.URL.Path]; {
				case !ok:
					w.WriteHeader(http.StatusForbidden)
					parts := strings.Split(r.URL.Path, "/")
					fmt.Fprintf(w, `{"kind":"Status","message":"%s \"%s\" is forbidden"}`, parts[3], parts[min(4, len(parts)-1)])
				case strings.TrimSpace(body) == "missing":
					w.WriteHeader(http.StatusNotFound)
				default:
					fmt.Fprint(w, body)
				}
			})
			code, out, errs := run("", "check", "--kubeconfig", config)
			out = regexp.MustCompile(`https://127\.0\.0\.1:\d+`).ReplaceAllString(out, "SERVER")
			got := fmt.Sprintf("%sexit code %d\n%s", out, code, errs)
			if *update {
				for i := range archive.Files {
					if archive.Files[i].Name == "want" {
						archive.Files[i].Data = []byte(got)
					}
				}
				if err := os.WriteFile(name, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
			_, out, _ = run("", "check", "--kubeconfig", config, "-o", "json")
			var d struct {
				Findings []struct{ Check string } `json:"findings"`
			}
			if err := json.Unmarshal([]byte(out), &d); err != nil {
				t.Fatal(err)
			}
			described, err := reference.Codes("../../docs/reference/problem-codes.md")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range d.Findings {
				if described[f.Check] == "" {
					t.Errorf("docs/reference/problem-codes.md lacks check %s", f.Check)
				}
			}
		})
	}
}

// TestCheckManyNodes checks that at most maxKubelets configurations are read at the same time,
// that a large one is refused, and that the progress counts all nodes.
func TestCheckManyNodes(t *testing.T) {
	const nodes = 40
	var running, most atomic.Int32
	config := kubeconfig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			var items []string
			for i := range nodes {
				items = append(items, fmt.Sprintf(`{"metadata":{"name":"node-%d"}}`, i))
			}
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","items":[%s]}`, strings.Join(items, ","))
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/configz") {
			fmt.Fprint(w, `{"kind":"List","apiVersion":"v1","items":[]}`)
			return
		}
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		size := 1
		if r.URL.Path == "/api/v1/nodes/node-7/proxy/configz" {
			size = maxConfigz
		}
		fmt.Fprintf(w, `{"kubeletconfig":{"cpuManagerPolicy":"none","padding":%q}}`, strings.Repeat("x", size))
	})
	o := checkOptions{}
	o.kubeconfig = config
	var shown strings.Builder
	in, err := o.gather(t.Context(), &progress{w: &shown, what: "kubelets"})
	if err != nil {
		t.Fatal(err)
	}
	if n := most.Load(); n > maxKubelets {
		t.Errorf("%d configurations at the same time; want at most %d", n, maxKubelets)
	}
	if len(in.Kubelets) != nodes-1 || len(in.Unread) != 1 || !strings.Contains(in.Unread[0].Why, "more than 1 MiB") {
		t.Errorf("%d configurations, not read: %v; want all but one, which is too large", len(in.Kubelets), in.Unread)
	}
	if text := shown.String(); !strings.HasSuffix(text, "\r40 of 40 kubelets\r\x1b[K") {
		t.Errorf("progress = %q; want 40 of 40", text)
	}
}
