package manifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// TestRewriteChangesNothingElse checks comments below a removed value, line ends of Windows, and
// aliases: none of them is lost, and only the values of the mutation differ.
func TestRewriteChangesNothingElse(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    cpu: x\n"
	for name, c := range map[string]struct{ before, after string }{
		"comment below the last value": {
			head + "spec:\n  containers:\n  - resources:\n      requests:\n        memory: 1Mi\n        cpu: 1\n        # below\n      limits:\n        memory: 2Mi\n",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    cpu: \"1000\"\nspec:\n  containers:\n  - resources:\n      requests:\n        memory: 1Mi\n        # below\n\n        moved: \"1\"\n      limits:\n        memory: 2Mi\n",
		},
		"comment below the only value": {
			head + "spec:\n  containers:\n  - resources:\n      requests:\n        cpu: 1\n      # below\n    image: x\n",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    cpu: \"1000\"\nspec:\n  containers:\n  - resources:\n      requests:\n        moved: \"1\"\n        # below\n    image: x\n",
		},
		"line ends": {
			"apiVersion: v1\r\nkind: Pod\r\nspec:\r\n  containers:\r\n  - resources: {requests: {cpu: 1}}\r\n",
			"apiVersion: v1\r\nkind: Pod\r\nspec:\r\n  containers:\r\n  - resources: {requests: {moved: \"1\"}}\r\nmetadata:\r\n  annotations:\r\n    cpu: \"1000\"\r\n",
		},
		"alias where nothing changes": {
			"apiVersion: v1\nkind: Pod\nmetadata: {labels: &l {a:   b}}\nspec:\n  nodeSelector: *l\n  containers: [{name: c}]\n",
			"apiVersion: v1\nkind: Pod\nmetadata: {labels: &l {a:   b}}\nspec:\n  nodeSelector: *l\n  containers: [{name: c}]\n",
		},
		"alias of the same resources": {
			head + "spec:\n  containers:\n  - resources: &r\n      requests:\n        cpu: 1\n  - resources: *r\n  - resources:\n      !!merge <<: *r\n      limits:\n        memory: 2Mi\n",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    cpu: \"3000\"\nspec:\n  containers:\n  - resources: &r\n      requests:\n        moved: \"1\"\n  - resources: *r\n  - resources:\n      !!merge <<: *r\n      limits:\n        memory: 2Mi\n",
		},
	} {
		got, err := manifest.Rewrite([]byte(c.before), move)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.after, string(got.After)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
