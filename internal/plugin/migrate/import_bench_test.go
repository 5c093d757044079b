package migrate_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
)

// BenchmarkImport imports 500 MachineConfigs of one role from one list. Each has the workloads of CRI-O, and 8 KiB of a file
// that Import skips. The list has 5.6 MiB.
func BenchmarkImport(b *testing.B) {
	source := func(text string) string {
		return "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(text))
	}
	var list strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range 500 {
		fmt.Fprintf(&list, `- apiVersion: machineconfiguration.openshift.io/v1
  kind: MachineConfig
  metadata:
    name: %d-workloads
    labels: {machineconfiguration.openshift.io/role: worker}
  spec:
    config:
      ignition: {version: 3.2.0}
      storage:
        files:
        - {path: /etc/crio/crio.conf.d/%d-workloads.conf, contents: {source: "%s"}}
        - {path: /etc/example.conf, contents: {source: "%s"}}
`, 100+i, 100+i, source(workloads("0-1")), source(strings.Repeat("setting = 1\n", 8<<10/12)))
	}
	files := []migrate.File{{Name: "list.yaml", Data: []byte(list.String())}}
	b.SetBytes(int64(list.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r, err := migrate.Import(files, migrate.Options{})
		if err != nil || len(r.Config.Pools.Partitions) != 1 {
			b.Fatalf("Import: %+v, %v; want one partition", r.Config, err)
		}
	}
}
