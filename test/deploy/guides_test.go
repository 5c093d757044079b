package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/config"
)

const docs = "../../docs/"

// pages returns the guides, the tutorials, the explanations and the README, by file.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	read := func(file string) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(data)
	}
	read(docs + "../README.md")
	for _, dir := range []string{"how-to", "tutorials", "explanation", "troubleshooting"} {
		err := filepath.WalkDir(docs+dir, func(file string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(file) == ".md" {
				read(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// blocks are the indented and the fenced blocks of a page, without their indentation.
func blocks(text string) []string {
	var all []string
	var block []string
	fenced := false
	for _, line := range append(strings.Split(text, "\n"), "end") {
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			block = append(block, line)
			continue
		case strings.HasPrefix(line, "    "), line == "" && len(block) > 0:
			block = append(block, strings.TrimPrefix(line, "    "))
			continue
		}
		if len(block) > 0 {
			all = append(all, strings.Join(block, "\n")+"\n")
			block = nil
		}
	}
	return all
}

// TestGuidesConfigurations checks that the daemon accepts every configuration of the
// guides, and helm the values.
func TestGuidesConfigurations(t *testing.T) {
	configs, values := 0, 0
	for file, text := range pages(t) {
		for _, b := range blocks(text) {
			switch {
			case strings.Contains(b, "kind: CPUPoolConfiguration\n") && !strings.HasPrefix(b, "$ "):
				configs++
				if _, err := config.Parse([]byte(b), file, config.Overrides{}, nil); err != nil {
					t.Errorf("%s: %v in\n%s", file, err, b)
				}
			case strings.HasPrefix(b, "image: {repository"):
				values++
				all := render(t, b)
				configurations(t, all)
				disjoint(t, of[*appsv1.DaemonSet](all))
			}
		}
	}
	if configs < 2 || values < 2 {
		t.Errorf("%d configurations and %d values of charts; want at least 2 of each", configs, values)
	}
}

// TestGuidesFiles checks that the files that the guides name exist. test/docs checks links.
func TestGuidesFiles(t *testing.T) {
	named := regexp.MustCompile(`(?m)(^|[ (])((deploy|examples|systemd|test)/[a-z0-9/.-]*[a-z0-9])`)
	for file, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat("../../" + m[2]); err != nil {
				t.Errorf("%s names %v", file, err)
			}
		}
	}
}

// TestGuidesCommands checks that the programs have the commands and flags of the
// guides.
func TestGuidesCommands(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "../..", "build", "-o", dir, "./cmd/kubectl-cpupool", "./cmd/cpupoold").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	command := regexp.MustCompile(`^(?:\$ )?(kubectl cpupool|\./cpupoold|cpupoold) ([^#>|]+)`)
	found := 0
	for file, text := range pages(t) {
		for _, line := range strings.FieldsFunc(strings.Join(blocks(text), ""), func(r rune) bool { return r == '\n' || r == '|' }) {
			m := command.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			found++
			// With --help flags are read, and nothing is done.
			program := map[string]string{"kubectl cpupool": "kubectl-cpupool", "./cpupoold": "cpupoold", "cpupoold": "cpupoold"}[m[1]]
			words := strings.Fields(m[2])
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program), append(words, "--help")...).CombinedOutput()
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") }) {
				words = []string{"[flags]"} // of the program itself; an unknown flag is an error
			}
			helps := func(word string) bool { return strings.Contains(string(out), "\nUsage:\n  "+program+" "+word) }
			if err != nil || !slices.ContainsFunc(words, helps) {
				t.Errorf("%s: %s: %v: %s", file, m[0], err, out)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d commands; want at least 15", found)
	}
}

// TestGuidesWorkloads checks that lint accepts the annotations of the guide for
// authors, and that mutate applies them.
func TestGuidesWorkloads(t *testing.T) {
	const guide = docs + "how-to/write-workloads.md"
	dir := t.TempDir()
	tool := filepath.Join(dir, "kubectl-cpupool")
	run := func(name string, args ...string) (out, errs string) {
		var o, e strings.Builder
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Stdout, cmd.Stderr = &o, &e
		if err := cmd.Run(); err != nil {
			t.Errorf("%s %s: %v: %s%s", filepath.Base(name), strings.Join(args, " "), err, &o, &e)
		}
		return o.String(), e.String()
	}
	run("go", "-C", "../..", "build", "-o", tool, "./cmd/kubectl-cpupool")
	text := pages(t)[guide]
	manifests := filepath.Join(dir, "manifests.yaml")
	var documents []string
	for _, b := range blocks(text) {
		if strings.HasPrefix(b, "apiVersion: ") {
			documents = append(documents, b)
		}
	}
	if err := os.WriteFile(manifests, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	run(tool, "lint", "-f", manifests, "--allowed-namespaces", "monitoring")
	out, errs := run(tool, "mutate", "-f", manifests, "--shared-cpus", "--guaranteed-cpus")
	if strings.Contains(errs, "warning") {
		t.Errorf("mutate printed warnings; want none:\n%s", errs)
	}
	all := parse(t, []byte(out))
	pod := all["Pod  du"].(*corev1.Pod).Spec
	if v := pod.Containers[0].Resources.Requests["openshift.io/guaranteed-cpus"]; v.String() != "4k" {
		t.Errorf("du requests %s of the guaranteed pool; want 4k", v.String())
	}
	if v := pod.Containers[1].Resources.Requests["openshift.io/shared-cpus"]; v.String() != "200" {
		t.Errorf("log requests %s of the shared pool; want 200", v.String())
	}
	agent := all["Deployment monitoring agent"].(*appsv1.Deployment).Spec.Template
	if v := agent.Spec.Containers[0].Resources.Requests["management.workload.openshift.io/cores"]; v.String() != "100" {
		t.Errorf("agent requests %s of the management pool; want 100", v.String())
	}
}
