//go:build guest

package firstcpus_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestSwitchedOn checks that containerd 1.7, which comes with NRI off, calls the daemon with the lines of docs/how-to/install.md, and
// that then no container begins outside.
func TestSwitchedOn(t *testing.T) {
	n := &course{newNode(t), make(map[string]int), make(map[string]int)}
	if !isOld(n.Node) {
		t.Skip("not containerd 1.7")
	}
	configure(n.Node, oldConfig, stateTime+`
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_request_timeout = "20s"
`)
	n.Runtime.NRI = true
	n.StartDaemon(fmt.Sprintf(pools, "2-3", "cpus: 4-7"))
	n.connected()
	for i := range 4 {
		kind, milli, where := "shared", int64(500), place{cpuset.Range(2, 3), 2}
		if i%2 == 1 {
			kind, milli, where = "guaranteed", 2000, place{cpuset.Range(4, 7), 2}
		}
		p, err := n.start(milli)
		if err != nil {
			t.Fatalf("%v\n%s", err, n.Evidence())
		}
		n.check(p, kind, where)
		n.inside(p, where)
		n.remove(p.id)
	}
	n.report()
}
