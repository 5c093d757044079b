//go:build fleet

package fleet_test

import (
	"fmt"
	"os"
	"strings"
)

// right is a role or a binding, with the path that it is posted to.
type right struct{ path, body string }

// rights are those of a file. The policy is left out: it wants tokens that the kubelet asks for, and
// there is none.
func rights(file string) ([]right, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []right
	for _, doc := range strings.Split(string(data), "\n---\n") {
		for kind, plural := range map[string]string{"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"} {
			if strings.Contains(doc, "\nkind: "+kind+"\n") {
				all = append(all, right{"/apis/rbac.authorization.k8s.io/v1/" + plural, doc})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no role in %s", file)
	}
	return all, nil
}
