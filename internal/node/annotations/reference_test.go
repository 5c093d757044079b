package annotations_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestReference checks that docs/reference/annotations.md lists each annotation of pods that
// the daemon reads by its own or CRI-O's name, and no other name.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/annotations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Annotations of pods\n")
	section, _, _ = strings.Cut(section, "\n## ")
	notRead := map[string]string{
		"workload.openshift.io/warning":    "the webhook writes it",
		"nri.cpupoold.io/tolerate-missing": "the runtime reads it",
	}
	names := workload.Names{}
	listed := map[string]bool{}
	reads := annotations.New(names).Reads
	placeholders := strings.NewReplacer("[", "", "]", "", "<container>", "app", "<type>", "management", "<option>", "numa")
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \|`).FindAllStringSubmatch(section, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			key := placeholders.Replace(m[1])
			listed[key] = true
			if notRead[key] == "" && !reads(key) {
				t.Errorf("the page lists %s, which the daemon does not read", m[1])
			}
			if bare, _, optional := strings.Cut(m[1], "["); optional {
				listed[bare] = true
				if !reads(bare) {
					t.Errorf("the page lists %s, which the daemon does not read", bare)
				}
			}
		}
	}
	for _, key := range []string{
		names.TargetKey("management"), names.ResourcesKey("app"), names.OldPrefix("management") + ".cpushares/app", names.WarningKey(),
		"cpu-load-balancing.workload.openshift.io/app", "irq-load-balancing.workload.openshift.io/app", "cpu-shared.workload.openshift.io/app",
		"cpu-load-balancing.crio.io", "irq-load-balancing.crio.io", "cpu-quota.crio.io", "cpu-shared.crio.io/app", "cpu-c-states.crio.io",
		"cpu-freq-governor.crio.io", "cpu-c-states.workload.openshift.io/app", "cpu-freq-governor.workload.openshift.io/app",
		"cpu-energy-preference.workload.openshift.io/app", "cpupoold.io/numa", "cpupoold.io/pod-level",
	} {
		if !listed[key] {
			t.Errorf("the page does not list %s", key)
		}
	}
}
