package autoscale_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/autoscale"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
)

// FuzzRequirement checks that the NodeOverlay has each accepted requirement as it was written, and no
// other one.
func FuzzRequirement(f *testing.F) {
	for _, text := range []string{"node.kubernetes.io/instance-type=m7i.8xlarge,m7a.8xlarge", "a=true", "a", "a=", "=b", "a=b,", "a=b\nc: d", "a/b/c=d", "a=b=c"} {
		f.Add(text)
	}
	m, err := simulate.Describe("1s4c2t")
	if err != nil {
		f.Fatal(err)
	}
	c := config.Default()
	f.Fuzz(func(t *testing.T, text string) {
		_, data, err := autoscale.Render(&c, m, autoscale.Karpenter, autoscale.Options{Name: "pools", Requirements: []string{text}})
		if err != nil {
			if strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		var overlay struct {
			Spec struct {
				Requirements []struct {
					Key, Operator string
					Values        []string
				}
			}
		}
		if err := yaml.Unmarshal(data, &overlay); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range overlay.Spec.Requirements {
			got = append(got, r.Key+" "+r.Operator+" "+strings.Join(r.Values, ","))
		}
		key, values, _ := strings.Cut(text, "=")
		if diff := cmp.Diff([]string{key + " In " + values}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	})
}
