package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/clustercheck"
)

// printCheck prints a table of the nodes, the findings, and the facts that were not read.
func printCheck(to io.Writer, d *clustercheck.Document) error {
	w := layout.NewWriter(to, layout.Columns(to))
	t := &layout.Table{}
	t.Row("NODE", "KERNEL", "RUNTIME", "NRI DEFAULT", "KUBELET", "CPU POLICY", "TOPOLOGY", "DRIVER", "CGROUPS", "RESERVED CPUS", "OS")
	for i := range d.Nodes {
		n := &d.Nodes[i]
		k := n.Kubelet
		if k == nil {
			k = &clustercheck.Kubelet{CPUManagerPolicy: "?", TopologyManagerPolicy: "?", CgroupDriver: "?", ReservedSystemCPUs: "?"}
		}
		t.Row(n.Name, n.Kernel, n.Runtime, cmp.Or(n.NRI, "?"), n.Version, k.CPUManagerPolicy, k.TopologyManagerPolicy, k.CgroupDriver, cmp.Or(n.Cgroup, "?"),
			k.ReservedSystemCPUs, n.OS)
	}
	w.Table(t)
	fmt.Fprintln(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-7s %s: %s%s\n", f.Severity, f.Check, layout.Printable(f.String()), ofNodes(f.Nodes))
	}
	for _, u := range d.Unread {
		fmt.Fprintf(w, "not read: %s%s: %s\n", u.What, ofNodes(u.Nodes), layout.Printable(u.Why))
	}
	switch {
	case len(d.Findings) > 0:
		fmt.Fprintln(w, codes.Hint())
	case len(d.Unread) > 0:
		fmt.Fprintln(w, "No problems found in the facts that were read.")
	default:
		fmt.Fprintln(w, "No problems found.")
	}
	return w.Flush()
}

// ofNodes returns the nodes in parentheses: the first five, and the number of the others.
func ofNodes(nodes []string) string {
	const most = 5
	switch n := len(nodes); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(" (%s and %d more nodes)", strings.Join(nodes[:most], ", "), n-most)
	default:
		return fmt.Sprintf(" (%s)", strings.Join(nodes, ", "))
	}
}
