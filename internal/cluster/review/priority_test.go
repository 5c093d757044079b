package review

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// hosted gives pods in a namespace with a class another one.
type hosted map[string]string

func (h hosted) Class(namespace, has string) string { return h[namespace+" "+has] }

// TestPriorities checks that only the fields that the API server set for the old class are
// removed, and that a node's own pods do not change.
func TestPriorities(t *testing.T) {
	const pod = `{"metadata":{"name":"etcd-0"},"spec":{"containers":[{"name":"a"}]SPEC}}`
	node := authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes"}}
	for name, c := range map[string]struct {
		spec, patch string
		user        authenticationv1.UserInfo
	}{
		"as the API server sends it": {`,"priorityClassName":"hypershift-etcd","priority":100002000,"preemptionPolicy":"Never"`,
			`[{"op":"add","path":"/spec/priorityClassName","value":"hypershift-etcd-s"},{"op":"remove","path":"/spec/priority"},{"op":"remove","path":"/spec/preemptionPolicy"}]`, authenticationv1.UserInfo{}},
		"without a policy": {`,"priorityClassName":"hypershift-etcd","priority":0`,
			`[{"op":"add","path":"/spec/priorityClassName","value":"hypershift-etcd-s"},{"op":"remove","path":"/spec/priority"}]`, authenticationv1.UserInfo{}},
		"the name alone": {`,"priorityClassName":"hypershift-etcd"`, `[{"op":"add","path":"/spec/priorityClassName","value":"hypershift-etcd-s"}]`, authenticationv1.UserInfo{}},
		"asked again":    {`,"priorityClassName":"hypershift-etcd-s","priority":2500000,"preemptionPolicy":"PreemptLowerPriority"`, "", authenticationv1.UserInfo{}},
		"another class":  {`,"priorityClassName":"system-node-critical","priority":2000001000`, "", authenticationv1.UserInfo{}},
		"a node's own":   {`,"nodeName":"n1","priorityClassName":"hypershift-etcd","priority":100002000`, "", node},
	} {
		request := creation(strings.Replace(pod, "SPEC", c.spec, 1))
		request.UserInfo = c.user
		got := answered(t, Pods(managed(), hosted{"default hypershift-etcd": "hypershift-etcd-s"}, newTally(), discard()), request)
		if !got.Allowed || string(got.Patch) != c.patch {
			t.Errorf("%s: patch %s; want %s", name, got.Patch, c.patch)
		}
	}
}
