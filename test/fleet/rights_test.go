//go:build fleet

package fleet_test

import (
	"fmt"
	"os"
	"strings"
)

// right is a role or a binding, with the path that it is posted to.
type right struct{ path, body string }

// rights returns the rights of a file. It skips the policy, which needs tokens of a kubelet, and no
// kubelet runs.
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
