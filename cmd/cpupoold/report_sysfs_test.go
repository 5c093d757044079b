package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// TestReportReplay checks that `cpupoold topology --sysfs` reads the same machine from a report as
// from the host, and that a report has the files of a machine that cannot be read.
func TestReportReplay(t *testing.T) {
	root := fstest.MapFS{}
	err := fs.WalkDir(nodefixture.Sysfs(8), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(nodefixture.Sysfs(8), name)
		root["sys/"+name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cpulist := root["sys/devices/system/node/node0/cpulist"]
	if cpulist == nil {
		t.Fatal("the machine has no NUMA node")
	}
	for name, test := range map[string]struct{ cpulist, out, missing string }{
		"a machine":                {string(cpulist.Data), "nodes with memory", ""},
		"a machine without a node": {"\n", "", "in no online node"},
	} {
		t.Run(name, func(t *testing.T) {
			cpulist.Data = []byte(test.cpulist)
			r := &reported{}
			r.topology(root)
			if got := strings.Join(r.missing, "\n"); (got == "") != (test.missing == "") || !strings.Contains(got, test.missing) {
				t.Errorf("missing is %q; want %q", got, test.missing)
			}
			dir := t.TempDir()
			for _, f := range r.files {
				file := filepath.Join(dir, filepath.FromSlash(f.Name))
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var out, errs bytes.Buffer
			a := &app{streams: streams{out: &out, err: &errs}}
			cmd := a.topology()
			cmd.SilenceUsage = true
			cmd.SetArgs([]string{"--sysfs", filepath.Join(dir, "sys")})
			cmd.SetErr(&errs)
			if err := cmd.Execute(); (err == nil) != (test.missing == "") || err != nil && !strings.Contains(err.Error(), test.missing) {
				t.Errorf("topology --sysfs: %v; want %q", err, test.missing)
			}
			if !strings.Contains(out.String(), test.out) {
				t.Errorf("topology --sysfs prints %q; want %q in it", out.String(), test.out)
			}
		})
	}
}
