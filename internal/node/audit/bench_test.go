package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// write writes the files into a temporary directory, so that their paths are as deep as in /proc.
func (p proc) write(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, f := range p {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// BenchmarkLook scans tasks in processes of ten threads each. In home, all tasks are on their own
// CPUs, so that their files are not read. In away, all tasks are foreign.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			p := newProc()
			for tid := 100; tid < 100+n; tid++ {
				p.task(tid-tid%10, tid, "worker", fmt.Sprintf("system.slice/s%d.service", tid/10), 50, 1, 100, "0-1")
			}
			root := kernelfs.Dir(p.write(b))
			for name, allowed := range map[string]cpuset.Set{"home": cpuset.Range(0, 1), "away": cpuset.Range(0, 7)} {
				mask := unix.NewCPUSet(cpuset.MaxCPUs)
				asked := func(int) (cpuset.Set, error) { // asks the kernel about this thread, because these tasks do not exist
					return allowed, unix.SchedGetaffinityDynamic(0, mask)
				}
				b.Run(name, func(b *testing.B) {
					w := audit.NewWatcher(root, asked, usage)
					b.ReportAllocs()
					before := cputime.Of(b)
					for b.Loop() {
						if err := w.Scan(node(), 0); err != nil {
							b.Fatal(err)
						}
					}
					cputime.Report(b, before)
					e, _ := w.Evidence()
					if e.Count != n || (len(e.Tasks) == n) != (name == "away") {
						b.Errorf("%d tasks, %d of them read", e.Count, len(e.Tasks))
					}
				})
			}
		})
	}
}
