package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const pod = `apiVersion: v1
kind: Pod
metadata:
  name: etcd
  annotations:
    target.workload.openshift.io/management: '{"effect":"PreferredDuringScheduling"}'
spec:
  containers:
  - name: etcd # it
    resources:
      requests: {cpu: 400m, memory: 1Gi}
`

// run executes a command line.
func run(stdin string, args ...string) (code int, out, errors string) {
	var o, e bytes.Buffer
	code = execute(streams{strings.NewReader(stdin), &o, &e}, args)
	return code, o.String(), e.String()
}

func TestMutate(t *testing.T) {
	const want = `apiVersion: v1
kind: Pod
metadata:
  name: etcd
  annotations:
    target.workload.openshift.io/management: '{"effect":"PreferredDuringScheduling"}'
    resources.workload.openshift.io/etcd: '{"cpushares":409}'
spec:
  containers:
  - name: etcd # it
    resources:
      requests: {memory: 1Gi, management.workload.openshift.io/cores: "400"}
      limits:
        management.workload.openshift.io/cores: "400"
`
	code, out, errors := run(pod, "mutate", "-f", "-")
	if code != exitOK || out != want || errors != "read: Pod\n" {
		t.Errorf("exit code %d, output\n%s\nerrors %q; want\n%s", code, out, errors, want)
	}
	if code, again, _ := run(want, "mutate", "-f", "-"); code != exitOK || again != want {
		t.Errorf("second mutate: exit code = %d; want the same output\n%s", code, again)
	}
	if code, diff, _ := run(want, "mutate", "--diff", "-f", "-"); code != exitOK || diff != "" {
		t.Errorf("second mutate: exit code = %d; want no differences\n%s", code, diff)
	}
}

func TestMutateFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errors := run("kind: Other\n", "mutate", "-f", file, "-f", "-", "--type", "infra", "--shared-cpus", "--pool-domain", "example.org")
	if code != exitOK || !strings.Contains(out, "example.org/shared-cpus: \"400\"") || !strings.HasSuffix(out, "---\nkind: Other\n") {
		t.Errorf("exit code = %d; want rewritten output\n%s", code, out)
	}
	if want := `Pod/etcd: workload type "management" is not switched on; give --type management`; !strings.Contains(errors, "warning: "+file+": "+want) {
		t.Errorf("errors %q; want a warning %q", errors, want)
	}
	code, out, _ = run("", "mutate", "-f", file, "--diff")
	if code != exitOK || !strings.Contains(out, "\n-      requests: {cpu: 400m, memory: 1Gi}\n") {
		t.Errorf("exit code = %d; want the removed request\n%s", code, out)
	}
}

func TestMutateFails(t *testing.T) {
	twice := strings.Replace(pod, "    target", "    target.workload.openshift.io/infra: x\n    target", 1)
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"no command":   {args: []string{"pin"}, code: exitUsage, want: `unknown command "pin"`},
		"no file":      {args: []string{"mutate"}, code: exitUsage, want: "no file; name one with -f"},
		"argument":     {args: []string{"mutate", "x"}, code: exitUsage, want: "mutate takes no argument"},
		"unknown flag": {args: []string{"mutate", "--x"}, code: exitUsage, want: "unknown flag"},
		"domain":       {args: []string{"mutate", "-f", "-", "--domain", "a b"}, code: exitUsage, want: "no DNS subdomain"},
		"description":  {args: []string{"simulate", "--topology", "4c1s"}, code: exitUsage, want: `--topology "4c1s": `},
		"of a node":    {args: []string{"simulate", "-f", "-", "--topology", "n=1s0c"}, code: exitUsage, want: `--topology "1s0c": count 0`},
		"of an import": {args: []string{"import", "-f", "-", "--topology", "4c1s"}, code: exitUsage, want: `--topology "4c1s": `},
		"of a render":  {args: []string{"render", "--config", "-", "--format", "kernel", "--topology", "4c1s"}, code: exitUsage, want: `--topology "4c1s": `},
		"address":      {args: []string{"serve", "-f", "-", "--listen", "host"}, code: exitUsage, want: "no address with a port"},
		"absent":       {args: []string{"mutate", "-f", "absent.yaml"}, code: exitError, want: "absent.yaml"},
		"two types":    {stdin: twice, args: []string{"mutate", "-f", "-"}, code: exitError, want: "-: Pod/etcd: annotation target.workload.openshift.io/infra"},
	} {
		code, out, errors := run(c.stdin, c.args...)
		if code != c.code || out != "" || !strings.Contains(errors, c.want) {
			t.Errorf("%s: exit code %d, output %q, errors %q; want %d and %q", name, code, out, errors, c.code, c.want)
		}
	}
}
