package appcpus_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
)

// must fails the test for any of the errors.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeInTime fails the test if a Write takes longer than any bounded Write needs.
func writeInTime(t *testing.T, w *appcpus.Writer, entries []appcpus.Entry, whole bool) appcpus.Result {
	t.Helper()
	done := make(chan appcpus.Result, 1)
	go func() { done <- w.Write(entries, whole) }()
	select {
	case r := <-done:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("Write does not end")
		return appcpus.Result{}
	}
}

// TestHostileContent checks each kind of content that a pod can put instead of its file or
// its directory. A Write replaces it, reports the pod, writes the other pod's file, and
// changes nothing outside. The next Write finds no fault. The test makes each attack twice: without and
// with stamps of the files.
func TestHostileContent(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, pod, outside string){
		"symlink to a file": func(t *testing.T, pod, outside string) {
			must(t, os.Remove(pod+"/app.json"), os.Symlink(outside+"/secret", pod+"/app.json"))
		},
		"symlink to /dev/zero": func(t *testing.T, pod, _ string) {
			must(t, os.Remove(pod+"/app.json"), os.Symlink("/dev/zero", pod+"/app.json"))
		},
		"FIFO": func(t *testing.T, pod, _ string) {
			must(t, os.Remove(pod+"/app.json"), syscall.Mkfifo(pod+"/app.json", 0o600))
		},
		"device": func(t *testing.T, pod, _ string) {
			must(t, os.Remove(pod+"/app.json"))
			if err := unix.Mknod(pod+"/app.json", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
				t.Skipf("only root can create a device: %v", err)
			}
		},
		"socket": func(t *testing.T, pod, _ string) {
			must(t, os.Remove(pod+"/app.json"), unix.Mknod(pod+"/app.json", unix.S_IFSOCK|0o600, 0))
		},
		"hard link": func(t *testing.T, pod, outside string) {
			must(t, os.Remove(pod+"/app.json"), os.Link(outside+"/secret", pod+"/app.json"))
		},
		"large file": func(t *testing.T, pod, _ string) { must(t, os.Truncate(pod+"/app.json", 1<<40)) },
		"other content": func(t *testing.T, pod, _ string) {
			must(t, os.WriteFile(pod+"/app.json", []byte("{}"), 0o600))
		},
		"no file": func(t *testing.T, pod, _ string) { must(t, os.Remove(pod+"/app.json")) },
		"directory": func(t *testing.T, pod, _ string) {
			must(t, os.Remove(pod+"/app.json"), os.MkdirAll(pod+"/app.json/a/b/c", 0o700))
		},
		"directory with a symlink": func(t *testing.T, pod, outside string) {
			must(t, os.Remove(pod+"/app.json"), os.Mkdir(pod+"/app.json", 0o700), os.Symlink(outside, pod+"/app.json/out"))
		},
		"symlink for the pod's directory": func(t *testing.T, pod, outside string) {
			must(t, os.RemoveAll(pod), os.Symlink(outside, pod))
		},
		"symlink to another pod's directory": func(t *testing.T, pod, _ string) {
			must(t, os.RemoveAll(pod), os.Symlink("u2", pod))
		},
		"FIFO for the pod's directory": func(t *testing.T, pod, _ string) {
			must(t, os.RemoveAll(pod), syscall.Mkfifo(pod, 0o600))
		},
		"no directory": func(t *testing.T, pod, _ string) { must(t, os.RemoveAll(pod)) },
	} {
		t.Run(name, func(t *testing.T) { checkHostile(t, attack, false) })
		t.Run(name+", kept", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(untilSettled)
				checkHostile(t, attack, true)
			})
		})
	}
}

// untilSettled is the time from the start of a synctest bubble, the year 2000, to a time at which
// the files of the test count as old.
const untilSettled = 100 * 365 * 24 * time.Hour

// checkHostile makes an attack on the files of a Writer, with kept stamps or without.
func checkHostile(t *testing.T, attack func(t *testing.T, pod, outside string), kept bool) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "run"), filepath.Join(base, "outside")
	must(t, os.Mkdir(outside, 0o700), os.WriteFile(outside+"/secret", []byte("untouched"), 0o600))
	entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
	w := write(t, dir, entries...)
	if kept {
		w.Write(entries, true)
		w.Write(entries, true)
	}
	attack(t, filepath.Join(dir, "containers/u1"), outside)
	later := append(entries, container("u2", "late"))
	r := writeInTime(t, w, later, true)
	if len(r.Faults) != 1 || r.Faults[0].Entry.PodUID != "u1" || !r.Again || r.Err != nil {
		t.Errorf("Write = %+v; want one fault, of u1", r)
	}
	if d := cmp.Diff(render(t, later...), read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"secret": "untouched"}, read(t, outside)); d != "" {
		t.Errorf("outside (-want +got):\n%s", d)
	}
	if r := writeInTime(t, w, later, true); len(r.Faults) > 0 || r.Again || r.Err != nil {
		t.Errorf("next Write = %+v; want no fault", r)
	}
	if left, _ := filepath.Glob(dir + "/containers/u1/.*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCheckReadsOneInEight checks that a check opens no file while stamps stay the same, except one
// directory in eight.
func TestCheckReadsOneInEight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(untilSettled)
		dir := t.TempDir()
		entries := []appcpus.Entry{container("u1", "app"), unit("du.service")}
		w := write(t, dir, entries...)
		opened := openings(t, dir+"/containers/u1", dir+"/units")
		w.Write(entries, true)
		if got := opened(); len(got) != 2 {
			t.Errorf("the first check reads %v; want both directories", got)
		}
		reads := make(map[string]int)
		const checks = 8
		for range checks {
			w.Write(entries, true)
			for d := range opened() {
				reads[d]++
			}
		}
		if want := map[string]int{dir + "/containers/u1": 1, dir + "/units": 1}; !cmp.Equal(want, reads) {
			t.Errorf("%d checks read %v; want %v", checks, reads, want)
		}
	})
}

// openings returns a function that returns the directories in which a file was opened since the call
// before.
func openings(t *testing.T, dirs ...string) func() map[string]bool {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	watches := make(map[int32]string)
	for _, d := range dirs {
		wd, err := unix.InotifyAddWatch(fd, d, unix.IN_OPEN)
		must(t, err)
		watches[int32(wd)] = d
	}
	return func() map[string]bool {
		all := make(map[string]bool)
		buffer := make([]byte, 64<<10)
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		must(t, err)
		for b := buffer[:n]; len(b) > 0; {
			if binary.NativeEndian.Uint32(b[4:])&unix.IN_ISDIR == 0 {
				all[watches[int32(binary.NativeEndian.Uint32(b))]] = true
			}
			b = b[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(b[12:]):]
		}
		return all
	}
}

// TestHostileFirst checks that content from before the first Write cannot stop it either.
func TestHostileFirst(t *testing.T) {
	dir := t.TempDir()
	pod := filepath.Join(dir, "containers/u1")
	must(t, os.MkdirAll(pod+"/side.json/x", 0o700), syscall.Mkfifo(pod+"/app.json", 0o600), os.Symlink("/", dir+"/containers/u0"))
	entries := []appcpus.Entry{container("u1", "app"), container("u1", "side"), container("u2", "app")}
	if r := writeInTime(t, appcpus.NewWriter(dir), entries, false); len(r.Faults) != 2 || r.Err != nil {
		t.Errorf("Write = %+v; want two faults", r)
	}
	if d := cmp.Diff(render(t, entries...), read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestImmutable checks that an immutable file, which root cannot replace, is a fault of its pod alone.
func TestImmutable(t *testing.T) {
	dir := t.TempDir()
	entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
	w := write(t, dir, entries...)
	f, err := os.Open(filepath.Join(dir, "containers/u1/app.json"))
	must(t, err)
	defer f.Close()        //nolint:errcheck // opened to read
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skipf("no immutable files here (a file system without them, or not root): %v", err)
	}
	defer func() { must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)) }()
	for i := range entries {
		entries[i].SharedCPUs = entries[i].CPUs
	}
	r := w.Write(entries, false)
	if len(r.Faults) != 1 || r.Faults[0].Entry.PodUID != "u1" || !strings.Contains(r.Faults[0].Text, "cannot be written") || !r.Again {
		t.Errorf("Write = %+v; want one fault, of u1", r)
	}
	if got, want := read(t, dir)["containers/u2/app.json"], render(t, entries[1])["containers/u2/app.json"]; got != want {
		t.Errorf("other pod's file: %s; want %s", got, want)
	}
}

// TestMountsOverFiles checks that mounts over a pod's directory and over its file are faults of
// this pod. No Write reaches the file system behind them. The next Writes after the unmount repair
// the file. Only root can mount.
func TestMountsOverFiles(t *testing.T) {
	for name, on := range map[string]string{"directory": "containers/u1", "file": "containers/u1/app.json"} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			dir, outside := filepath.Join(base, "run"), filepath.Join(base, "outside")
			must(t, os.Mkdir(outside, 0o700), os.WriteFile(outside+"/app.json", []byte("untouched"), 0o600))
			entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
			w := write(t, dir, entries...)
			from, target := outside, filepath.Join(dir, on)
			if name == "file" {
				from += "/app.json"
			}
			if err := unix.Mount(from, target, "", unix.MS_BIND, ""); err != nil {
				t.Skipf("cannot mount here: %v", err)
			}
			unmount := func() {
				moved, _ := filepath.Glob(dir + "/containers/.u1*/app.json") // a Write moves the directory of a pod that is gone
				for _, m := range append(moved, target) {
					_ = unix.Unmount(m, unix.MNT_DETACH) // an error shows below, as a file that cannot be replaced
				}
			}
			defer unmount()
			for i := range entries {
				entries[i].SharedCPUs = entries[i].CPUs
			}
			for _, whole := range []bool{false, true} {
				r := writeInTime(t, w, entries, whole)
				if len(r.Faults) != 1 || r.Faults[0].Entry.PodUID != "u1" || !strings.Contains(r.Faults[0].Text, "cannot be written") || r.Err != nil {
					t.Errorf("Write = %+v; want one fault, of u1", r)
				}
				if got, want := read(t, dir+"/containers/u2")["app.json"], render(t, entries[1])["containers/u2/app.json"]; got != want {
					t.Errorf("other pod's file: %s; want %s", got, want)
				}
			}
			// A pod that is gone has no problem. Its directory remains, and the files of others are written.
			if r := writeInTime(t, w, entries[1:], true); r.Leftover == nil || r.Err != nil || len(r.Faults) > 0 {
				t.Errorf("Write without the pod = %+v; want only a Leftover", r)
			}
			if d := cmp.Diff(map[string]string{"app.json": "untouched"}, read(t, outside)); d != "" {
				t.Errorf("outside (-want +got):\n%s", d)
			}
			unmount()
			for range 2 {
				writeInTime(t, w, entries, true)
			}
			if d := cmp.Diff(render(t, entries...), read(t, dir)); d != "" {
				t.Errorf("files after the unmount (-want +got):\n%s", d)
			}
		})
	}
}

// TestOtherOwner checks a pod that has given its directory and its file to another user, with the
// sticky bit. The unit's daemon has no CAP_FOWNER, and cannot replace such a file. It is a fault of
// this pod, and a Leftover after the pod.
func TestOtherOwner(t *testing.T) {
	dir := t.TempDir()
	entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
	w := write(t, dir, entries...)
	pod := filepath.Join(dir, "containers/u1")
	if err := errors.Join(os.Chown(pod, 1000, 1000), os.Chown(pod+"/app.json", 1000, 1000), os.Chmod(pod, 0o755|os.ModeSticky)); err != nil {
		t.Skipf("only root can give files away: %v", err)
	}
	for i := range entries {
		entries[i].SharedCPUs = entries[i].CPUs
	}
	r := withoutOwnership(t, func() appcpus.Result { return w.Write(entries, true) })
	if len(r.Faults) != 1 || r.Faults[0].Entry.PodUID != "u1" || r.Err != nil {
		t.Errorf("Write = %+v; want one fault, of u1", r)
	}
	if got, want := read(t, dir)["containers/u2/app.json"], render(t, entries[1])["containers/u2/app.json"]; got != want {
		t.Errorf("other pod's file: %s; want %s", got, want)
	}
	must(t, os.Chown(pod, 0, 0), os.Chown(pod+"/app.json", 0, 0))
	entries[0].Verified = false // its container has exited
	if r := w.Write(entries, true); len(r.Faults) > 0 || r.Again {
		t.Errorf("Write after the end of the fault = %+v; want no fault", r)
	}
	if got, want := read(t, dir)["containers/u1/app.json"], render(t, entries[0])["containers/u1/app.json"]; got != want {
		t.Errorf("file after the end of the fault: %s; want %s", got, want)
	}
	must(t, os.Chown(pod, 1000, 1000), os.Chown(pod+"/app.json", 1000, 1000))
	r = withoutOwnership(t, func() appcpus.Result { return w.Write(entries[1:], true) })
	if r.Leftover == nil || r.Err != nil || len(r.Faults) > 0 || !r.Again {
		t.Errorf("Write without the pod = %+v; want only a Leftover", r)
	}
}

// TestOtherOwnerOfAll checks a pod that mounts all directories, and gives their parent to another
// user. The daemon still writes the files.
func TestOtherOwnerOfAll(t *testing.T) {
	dir := t.TempDir()
	e := container("u1", "app")
	w := write(t, dir, e)
	all := filepath.Join(dir, "containers")
	if err := errors.Join(os.Chown(all, 1000, 1000), os.Chmod(all, 0o700)); err != nil {
		t.Skipf("only root can give files away: %v", err)
	}
	e.SharedCPUs = e.CPUs
	if r := withoutOwnership(t, func() appcpus.Result { return w.Write([]appcpus.Entry{e}, true) }); r.Err != nil || len(r.Faults) > 0 {
		t.Errorf("Write = %+v; want no fault", r)
	}
	if d := cmp.Diff(render(t, e), read(t, dir)); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestRemovedPodsFirst checks that an existing pod with many files does not keep the files of
// removed pods on the disk, whether this daemon has written them or an earlier one.
func TestRemovedPodsFirst(t *testing.T) {
	for name, writer := range map[string]func(w *appcpus.Writer, dir string) *appcpus.Writer{
		"same daemon":  func(w *appcpus.Writer, _ string) *appcpus.Writer { return w },
		"later daemon": func(_ *appcpus.Writer, dir string) *appcpus.Writer { return appcpus.NewWriter(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
			w := writer(write(t, dir, entries...), dir)
			one := filepath.Join(dir, "one")
			must(t, os.WriteFile(one, nil, 0o600))
			for i := range 5 { // as many as one Write removes in all directories
				tree := fmt.Sprintf("%s/containers/u1/%d.json", dir, i)
				must(t, os.Mkdir(tree, 0o700))
				for j := range 5000 {
					must(t, os.Link(one, fmt.Sprintf("%s/%d", tree, j)))
				}
			}
			if r := writeInTime(t, w, entries[:1], true); r.Err != nil || !r.Again {
				t.Errorf("Write = %+v; want Again", r)
			}
			if d := cmp.Diff([]string{"u1"}, directories(t, dir)); d != "" {
				t.Errorf("directories (-want +got):\n%s", d)
			}
		})
	}
}

// withoutOwnership calls f in a thread without CAP_FOWNER.
func withoutOwnership(t *testing.T, f func() appcpus.Result) appcpus.Result {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	must(t, unix.Capget(&header, &all[0]))
	fewer := all
	fewer[0].Effective &^= 1 << unix.CAP_FOWNER
	must(t, unix.Capset(&header, &fewer[0]))
	defer func() { must(t, unix.Capset(&header, &all[0])) }()
	return f()
}

// TestLongName checks that a directory of a pod with the longest possible name can be removed.
func TestLongName(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "containers", strings.Repeat("x", 255), "app.json"), 0o755))
	write(t, dir, container("u1", "app"))
	if d := cmp.Diff([]string{"u1"}, directories(t, dir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
}

// TestLargeTree checks that a large tree instead of a file delays no other pod. One Write
// replaces the file and removes a part of the tree. Later ones remove the rest, also when the
// pod is gone and another daemon runs.
func TestLargeTree(t *testing.T) {
	dir := t.TempDir()
	entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
	w := write(t, dir, entries...)
	file := filepath.Join(dir, "containers/u1/app.json")
	must(t, os.Remove(file))
	one := filepath.Join(dir, "one")
	must(t, os.WriteFile(one, nil, 0o600))
	for i := range 6 { // more than one Write removes
		must(t, os.MkdirAll(fmt.Sprintf("%s/%d", file, i), 0o700))
		for j := range 1000 {
			must(t, os.Link(one, fmt.Sprintf("%s/%d/%d", file, i, j)))
		}
	}
	deep := file + strings.Repeat("/d", 200)
	must(t, os.MkdirAll(deep, 0o700))
	if r := writeInTime(t, w, entries, true); len(r.Faults) != 1 || !r.Again || r.Err != nil {
		t.Errorf("Write = %+v; want one fault", r)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != render(t, entries[0])["containers/u1/app.json"] {
		t.Errorf("file after one Write: %q, %v; want %q", b, err, render(t, entries[0])["containers/u1/app.json"])
	}
	writeInTime(t, w, entries[1:], true)
	w = appcpus.NewWriter(dir)
	again := true
	for range 10 {
		if r := writeInTime(t, w, entries[1:], true); r.Err != nil {
			t.Fatal(r.Err)
		} else if again = r.Again; !again {
			break
		}
	}
	if d := cmp.Diff([]string{"u2"}, directories(t, dir)); d != "" || again {
		t.Errorf("again: %v; directories (-want +got):\n%s", again, d)
	}
}

// TestRacingPod makes up to 1,000 Writes while a pod replaces its directory, its file and the temporary
// files in a loop. No Write may change a file outside or stop, and after the attack one Write
// repairs everything.
func TestRacingPod(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "run"), filepath.Join(base, "outside")
	must(t, os.MkdirAll(outside+"/u2", 0o700), os.WriteFile(outside+"/app.json", []byte("untouched"), 0o600), os.Chmod(outside, 0o700))
	entries := []appcpus.Entry{container("u1", "app"), container("u2", "app")}
	w := write(t, dir, entries...)
	pod := filepath.Join(dir, "containers/u1")
	open, err := os.Open(pod)
	must(t, err)
	defer open.Close()                                //nolint:errcheck // a directory
	inside := fmt.Sprint("/proc/self/fd/", open.Fd()) // the attackers follow no link of their own
	stop := make(chan struct{})
	var attackers sync.WaitGroup
	attack := func(step func(i int)) {
		attackers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					step(i)
					if rand.IntN(10) == 0 {
						time.Sleep(time.Microsecond) // so that Writes make progress on few CPUs
					}
				}
			}
		})
	}
	attack(func(int) { // the directory; each error means that the other side was faster
		_ = os.Rename(pod, pod+".old")
		_ = os.Symlink(outside, pod)
		_ = os.Remove(pod)
		_ = os.Rename(pod+".old", pod)
	})
	attack(func(i int) { // the file
		file := inside + "/app.json"
		_ = os.RemoveAll(file)
		switch i % 4 {
		case 0:
			_ = os.Symlink(outside+"/app.json", file)
		case 1:
			_ = syscall.Mkfifo(file, 0o600)
		case 2:
			_ = os.MkdirAll(file+"/x/y", 0o700)
		case 3:
			_ = os.Link(outside+"/app.json", file)
		}
	})
	attack(func(int) { // new files
		fresh, _ := filepath.Glob(inside + "/.app.json*")
		for _, f := range fresh {
			_ = os.Remove(f)
			_ = os.Symlink(outside+"/app.json", f)
		}
	})
	writes, faults := 0, 0
	for end := time.Now().Add(20 * time.Second); writes < 1000 && time.Now().Before(end); writes++ { // fewer on a busy machine
		for j := range entries {
			entries[j].SharedCPUs = entries[j].CPUs
			if writes%2 == 0 {
				entries[j].SharedCPUs = entries[j].Nodes
			}
		}
		r := writeInTime(t, w, entries, writes%3 == 0)
		for _, f := range r.Faults {
			faults++
			if f.Entry.PodUID != "u1" {
				t.Errorf("fault of another pod: %+v", f)
			}
		}
		if got, want := read(t, dir+"/containers/u2")["app.json"], render(t, entries[1])["containers/u2/app.json"]; got != want {
			t.Fatalf("other pod's file: %s; want %s", got, want)
		}
	}
	close(stop)
	attackers.Wait()
	t.Logf("%d faults in %d Writes", faults, writes)
	if faults == 0 {
		t.Error("no fault: the attack changed nothing")
	}
	must(t, os.RemoveAll(pod+".old"))
	for range 3 {
		writeInTime(t, w, entries, true)
	}
	if d := cmp.Diff(render(t, entries...), read(t, dir)); d != "" {
		t.Errorf("files after the attack (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"app.json": "untouched"}, read(t, outside)); d != "" {
		t.Errorf("outside (-want +got):\n%s", d)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("outside: %v, %v; want mode 0700", info.Mode(), err)
	}
}
