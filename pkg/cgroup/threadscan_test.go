package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// scope is the cgroup of the container in the tests of this file.
const scope = Path("pods.slice/a.slice/1.scope")

// host is a tree of plain files in which threads are outside of their CPUs until they are moved.
type host struct {
	*plain
	asked   int
	outside map[int]bool
	refuse  error // of Unbind
	before  func(tid int)
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{plain: newPlain(t), outside: make(map[int]bool)}
	h.make("", map[string]string{fileEffective: "0-7"})
	h.make(string(scope), nil)
	return h
}

func (h *host) Inside(tid int, _ cpuset.Set) (bool, error) {
	if h.before != nil {
		h.before(tid)
	}
	h.asked++
	return !h.outside[tid], nil
}

func (h *host) Unbind(tid int) error {
	if h.refuse == nil {
		delete(h.outside, tid)
	}
	return h.refuse
}

// list returns a list of n threads, from first on.
func list(first, n int) string {
	var b strings.Builder
	for tid := range n {
		fmt.Fprintln(&b, first+tid)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// scan scans the scope in turns of n cgroups.
func (h *host) scan(n int) (found Gathered, turns int) {
	h.t.Helper()
	s := New(h).ScanThreads(scope)
	for turns = 1; !s.Next(h.t.Context(), n); turns++ {
		if turns > 100_000 {
			h.t.Fatal("the scan does not end")
		}
	}
	s.Close()
	if h.open != 0 {
		h.t.Errorf("open directories after the scan = %d; want 0", h.open)
	}
	return s.Found(), turns
}

// TestLongThreadList checks that a list of any size is read, that Gather asks for a bounded number of threads, and that no
// list is in memory as a whole.
func TestLongThreadList(t *testing.T) {
	const threads = 200_000
	h := newHost(t)
	h.make(string(scope), map[string]string{"cgroup.threads": list(100_000, threads)})
	h.outside[299_999] = true
	if g, err := New(h).Gather(scope); err != nil || !g.More || h.asked != gatherThreads {
		t.Errorf("Gather = %+v, %v, asked for %d threads; want more than %d", g, err, h.asked, gatherThreads)
	}
	h.asked = 0
	if g, _ := h.scan(1); g.Back != 1 || g.Unread != 0 || g.More || h.asked != threads+1 { // the last one twice
		t.Errorf("scan = %+v, threads read = %d; want one moved", g, h.asked)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.scan(1)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
		t.Errorf("allocations of a scan of %d threads = %d bytes; want at most 64 KiB", threads, used)
	}
}

// TestStuckThreadsAreCounted checks that the result has the first threads that cannot be moved, and the number of all.
func TestStuckThreadsAreCounted(t *testing.T) {
	h := newHost(t)
	h.make(string(scope), map[string]string{"cgroup.threads": list(1000, 50)})
	h.refuse = syscall.EPERM
	for tid := range 30 {
		h.outside[1010+tid] = true
	}
	want := Gathered{Outside: 30, Stuck: []int{1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017}, Why: syscall.EPERM}
	same := cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) })
	if g, err := New(h).Gather(scope); err != nil || !cmp.Equal(g, want, same) {
		t.Errorf("Gather: %v (-want +got):\n%s", err, cmp.Diff(want, g, same))
	}
	if g, _ := h.scan(10); !cmp.Equal(g, want, same) {
		t.Errorf("scan (-want +got):\n%s", cmp.Diff(want, g, same))
	}
}

// TestErrorsBelowScope checks that no cgroup below a container makes an error of Gather, and that each is part of the result.
func TestErrorsBelowScope(t *testing.T) {
	long := strings.Repeat("x", 255)
	for name, test := range map[string]struct {
		make   func(h *host)
		unread int
		err    string // part of the first error
		more   bool
		scan   int // the same for a scan
	}{
		"list cannot be read": {
			make: func(h *host) {
				h.make(string(scope+"/b"), map[string]string{"cgroup.threads": "-"})
				if err := os.Mkdir(filepath.Join(h.at, string(scope), "b", "cgroup.threads"), 0o700); err != nil { // EISDIR
					h.t.Fatal(err)
				}
			},
			unread: 1, scan: 1, err: "b/cgroup.threads: read cgroup.threads: is a directory",
		},
		"crun's cgroup cannot be read": {
			make: func(h *host) {
				h.make(string(scope+"/container"), map[string]string{fileEffective: "nonsense"})
			},
			unread: 1, scan: 1, err: "container/cpuset.cpus.effective",
		},
		"path of more than 4,095 bytes": {
			make: func(h *host) {
				dir, err := os.OpenRoot(filepath.Join(h.at, string(scope)))
				for range 16 {
					if err == nil {
						err = dir.Mkdir(long, 0o700)
					}
					if err != nil {
						h.t.Fatal(err)
					}
					var next *os.Root
					if next, err = dir.OpenRoot(long); err == nil {
						fill(h.t, next)
					}
					dir.Close() //nolint:errcheck,gosec // test
					dir = next
				}
				dir.Close() //nolint:errcheck,gosec // test
			},
			unread: 1, scan: 1, err: "not a path of a cgroup: 4122 bytes",
		},
		"many cgroups": {
			make: func(h *host) {
				for i := range gatherCgroups + 1 {
					h.make(fmt.Sprintf("%s/%d", scope, i), nil)
				}
			},
			more: true,
		},
		"deep cgroups": {
			make: func(h *host) {
				h.make(string(scope)+strings.Repeat("/d", maxScanDepth+2), nil)
				for at := scope; len(at) < len(scope)+2*maxScanDepth+4; at += "/d" {
					h.make(string(at), nil)
				}
			},
			more: true, scan: 1,
		},
		"cgroup is gone": {
			make: func(h *host) {
				h.make(string(scope+"/a"), nil)
				h.make(string(scope+"/b"), nil)
				h.make(string(scope), map[string]string{"cgroup.threads": "7"})
				h.before = func(int) {
					if err := os.RemoveAll(filepath.Join(h.at, string(scope), "a")); err != nil {
						h.t.Error(err)
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			test.make(h)
			g, err := New(h).Gather(scope)
			if err != nil || g.Unread != test.unread || g.More != test.more || test.unread > 0 && !strings.Contains(g.UnreadErr.Error(), test.err) {
				t.Errorf("Gather = %+v, %v; want %d unread, more: %t, %s", g, err, test.unread, test.more, test.err)
			}
			if g.UnreadErr != nil && len(g.UnreadErr.Error()) > 600 {
				t.Errorf("length of the error = %d; want at most 600: %s", len(g.UnreadErr.Error()), g.UnreadErr)
			}
			if g, _ := h.scan(10); g.Unread != test.scan || g.More {
				t.Errorf("scan = %+v; want %d unread", g, test.scan)
			}
		})
	}
}

// fill makes the files of a cgroup.
func fill(t *testing.T, dir *os.Root) {
	t.Helper()
	for name, content := range map[string]string{"cgroup.controllers": "\n", fileEffective: "0-7\n", "cgroup.threads": "\n"} {
		if err := dir.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestThreadScanTurns checks that a scan reads each cgroup once, in turns of bounded work, and ends with its context.
func TestThreadScanTurns(t *testing.T) {
	h := newHost(t)
	want := []string{}
	for i := range 40 {
		for j := range 25 {
			at := fmt.Sprintf("%s/%d/%d", scope, i, j)
			h.make(at, map[string]string{"cgroup.threads": fmt.Sprint(1000 + 25*i + j)})
			want = append(want, fmt.Sprint(1000+25*i+j))
		}
		h.make(fmt.Sprintf("%s/%d", scope, i), nil)
	}
	h.outside[1999] = true
	var asked []string
	h.before = func(tid int) { asked = append(asked, fmt.Sprint(tid)) }
	g, turns := h.scan(100)
	if asked = slices.Compact(slices.Sorted(slices.Values(asked))); g.Back != 1 || !slices.Equal(asked, want) {
		t.Errorf("scan = %+v, of %d threads; want %d", g, len(asked), len(want))
	}
	if turns < 10 || turns > 12 { // of 1,041 cgroups and 1,000 threads
		t.Errorf("turns = %d; want 10 to 12", turns)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := New(h).ScanThreads(scope)
	h.before = func(int) { cancel() }
	for range 3 {
		if s.Next(ctx, 10_000) {
			t.Error("a canceled scan is over; want it open")
		}
	}
	if s.Close(); h.open != 0 {
		t.Errorf("open directories = %d; want 0", h.open)
	}
	if done := New(h).ReadOnly().ScanThreads(scope).Next(t.Context(), 1); !done {
		t.Error("a read-only scan has work; want none")
	}
}

// TestScanOfGone checks that a scan of a cgroup that is gone ends without a result.
func TestScanOfGone(t *testing.T) {
	h := newHost(t)
	if err := os.RemoveAll(filepath.Join(h.at, string(scope))); err != nil {
		t.Fatal(err)
	}
	if g, turns := h.scan(10); turns != 1 || g.Unread != 0 || g.UnreadErr != nil {
		t.Errorf("scan = %+v in %d turns; want one turn", g, turns)
	}
}

// parsed returns the ids of a list that comes in parts of n bytes.
func parsed(text string, n int) (ids []int) {
	var p idParser
	visit := func(id int) error { ids = append(ids, id); return nil }
	for part := range slices.Chunk([]byte(text), n) {
		_ = p.parse(part, visit)
	}
	_ = p.end(visit)
	return ids
}

// TestIDParser checks lists of ids, also with parts that end within an id.
func TestIDParser(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "\n": nil, "1\n": {1}, "1": {1}, "12\n345\n6\n": {12, 345, 6}, "0\n7": {0, 7}, " 4  5\t6 ": {4, 5, 6},
		"4194304\n": {4194304}, "x\n8": {8}, "1x2\n3": {3}, "-5\n6": {6}, "99999999999999999999\n2": {2},
	} {
		for n := 1; n <= len(text)+1; n++ {
			if got := parsed(text, n); !slices.Equal(got, want) {
				t.Errorf("%q in parts of %d: %v; want %v", text, n, got, want)
			}
		}
	}
	stop := errors.New("stop")
	if err := new(idParser).parse([]byte("1\n2\n"), func(int) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("parse = %v; want the error of visit", err)
	}
}

// FuzzIDParser checks that parts of any size do not change the ids, and compares the ids with the fields of the list.
func FuzzIDParser(f *testing.F) {
	f.Add("1\n22\n333\n", 2)
	f.Add("x1 \t 9999999999999999999999 5", 3)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 {
			return
		}
		whole := parsed(text, len(text)+1)
		if got := parsed(text, n); !slices.Equal(got, whole) {
			t.Errorf("%q in parts of %d: %v; want %v", text, n, got, whole)
		}
		var want []int
		for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ' ' || r == '\t' }) {
			if id := 0; len(field) < 10 && strings.Trim(field, "0123456789") == "" {
				if trimmed := strings.TrimLeft(field, "0"); trimmed != "" {
					id, _ = strconv.Atoi(trimmed) // only digits
				}
				want = append(want, id)
			} else if strings.Trim(field, "0123456789") == "" {
				return // long numbers: the tests have them
			}
		}
		if !slices.Equal(whole, want) {
			t.Errorf("%q: %v; want %v", text, whole, want)
		}
	})
}
