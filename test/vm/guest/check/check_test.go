//go:build guest

package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/preflight"
)

var (
	cpupoold = flag.String("cpupoold", "", "path of the program under test")
	checks   = flag.String("checks", "", "names of all checks, by commas")
)

const (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	kubeletState  = "/var/lib/kubelet/cpu_manager_state"
)

// limit is for one run of cpupoold, or for the kubelet to start.
const limit = 3 * time.Minute

// prelude holds the shell functions that break a host. Their effects are visible in the mount namespace of
// the case only.
const prelude = `set -eu
# replace FILE TEXT: FILE reads as TEXT.
replace() { new=$(mktemp); printf '%s\n' "$2" >"$new"; mount --bind "$new" "$1"; }
# hide DIR: DIR is empty.
hide() { mount -t tmpfs none "$1"; }
# edit FILE SCRIPT: FILE reads as what sed makes of it.
edit() { new=$(mktemp); sed "$2" "$1" >"$new"; mount --bind "$new" "$1"; }
# cpupoold reads the files of the kubelet and of the machine through /proc/PID/root, where this namespace has no effect. Without that
# link it reads its own files. kubelet is the list of kubelets.
kubelet=
for comm in /proc/[0-9]*/comm; do
	if [ "$(cat "$comm" 2>/dev/null)" = kubelet ]; then dir=${comm%/comm}; kubelet="$kubelet ${dir#/proc/}"; fi
done
for pid in 1 $kubelet; do
	dir=$(mktemp -d)
	for file in cmdline status cgroup; do cat "/proc/$pid/$file" >"$dir/$file"; done
	mount --bind "$dir" "/proc/$pid"
done
# noKubelet: no kubelet runs.
noKubelet() { for pid in $kubelet; do : >"/proc/$pid/cmdline"; done; }
`

// goodConfig fits a machine with eight CPUs. The kubelet reserves 0-1: see TestMain.
const goodConfig = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- type: management
  cpus: 0-1
  namespaces: [kube-system]
shared:
  cpus: 2-3
guaranteed:
  cpus: 4-7
`

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		original, err := os.ReadFile(kubeletConfig)
		if err == nil {
			err = os.WriteFile(kubeletConfig, append(original, "\nreservedSystemCPUs: 0-1\n"...), 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// result is the output of cpupoold check.
type result struct {
	findings []preflight.Finding
	code     int
}

// inBroken runs cpupoold with a configuration in a mount namespace that a script has changed before.
func inBroken(t *testing.T, script, config string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--config", file}, args...)
	// The test's context has ended during a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private",
		"sh", "-c", prelude + script + "\nexec \"$0\" \"$@\"", *cpupoold}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("cpupoold %q: not ended after %v: %s%s", args, limit, &out, &errs)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func check(t *testing.T, script, config string) result {
	t.Helper()
	stdout, stderr, code := inBroken(t, script, config, "check", "-o", "json")
	if code != 0 && code != 3 || stderr != "" {
		t.Fatalf("cpupoold check: exit code %d: %s%s", code, stdout, stderr)
	}
	r := result{code: code}
	if err := json.Unmarshal([]byte(stdout), &r.findings); err != nil {
		t.Fatalf("cpupoold check: %v in %s", err, stdout)
	}
	return r
}

// matches reports whether a finding is "SEVERITY CHECK: WORDS": the words may be anywhere in
// it.
func matches(f preflight.Finding, want string) bool {
	head, words, _ := strings.Cut(want, ": ")
	return head == f.Severity.String()+" "+f.Check && strings.Contains(f.String(), words)
}

// expect compares findings with the wanted ones. Both are in order.
func (r result) expect(t *testing.T, want []string) {
	t.Helper()
	// The guest's own services run on all CPUs: only the cases about them expect that
	// finding.
	hosts := func(f preflight.Finding) bool { return f.Check == "host-slices" }
	if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, " host-slices: ") }) {
		r.findings = slices.DeleteFunc(r.findings, hosts)
	}
	// Some cases configure a runtime of the test, and the kubelet uses the runtime of the guest. Only the cases about this difference expect it.
	ofTest := func(f preflight.Finding) bool {
		return f.Check == "runtime" && strings.Contains(f.String(), "is unix:///tmp/")
	}
	if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, " runtime: ") }) {
		r.findings = slices.DeleteFunc(r.findings, ofTest)
	}
	// With a runtime of the test there is no plan of the node. Only the case with a pod expects the finding.
	ofRunning := func(f preflight.Finding) bool { return f.Check == "running-containers" }
	if !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, " running-containers: ") }) {
		r.findings = slices.DeleteFunc(r.findings, ofRunning)
	}
	if !slices.EqualFunc(r.findings, want, matches) {
		t.Errorf("findings:\n%s\nwant:\n%s", list(r.findings), strings.Join(want, "\n"))
	}
	grave := slices.ContainsFunc(r.findings, func(f preflight.Finding) bool { return f.Severity >= preflight.Error })
	if (r.code == 3) != grave {
		t.Errorf("exit code %d with these findings:\n%s", r.code, list(r.findings))
	}
}

func list(findings []preflight.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Check, f)
	}
	return b.String()
}

// joinThreads returns a script that makes CPUs threads of the same core.
func joinThreads(list string, cpus ...int) (script string) {
	for _, cpu := range cpus {
		for _, file := range []string{"core_cpus_list", "thread_siblings_list"} {
			script += fmt.Sprintf("replace /sys/devices/system/cpu/cpu%d/topology/%s %s\n", cpu, file, list)
		}
	}
	return script
}

func TestGoodNode(t *testing.T) {
	check(t, "", goodConfig).expect(t, nil)
}

func TestBrokenNode(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			script, config := c.script, goodConfig
			if c.config != "" {
				config = c.config
			}
			if c.setup != nil {
				added := c.setup(t)
				script, config = script+added.script, config+added.config
			}
			check(t, script, config).expect(t, c.want)
		})
	}
	// Nothing of all that may be left.
	check(t, "", goodConfig).expect(t, nil)
}

// TestEveryCheckHasCase checks that each kind of finding has a case here.
func TestEveryCheckHasCase(t *testing.T) {
	for name := range strings.SplitSeq(*checks, ",") {
		if !slices.ContainsFunc(cases(), func(c broken) bool {
			return slices.ContainsFunc(c.want, func(w string) bool { return strings.Contains(w, " "+name+": ") })
		}) {
			t.Errorf("no case for check %s", name)
		}
	}
}
