//go:build guest

package tenants_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	files    = "/run/cpupoold/containers" // on the node
	progress = "/var/lib/tenants"         // on the node; each attack writes its count to a file there

	// The paths inside the containers of attackers.
	programInside  = "/attack"
	ownFiles       = "/files"    // the pod's directory of files
	progressInside = "/progress" // progress
)

// An attack makes one attempt. It returns an error if the attempt was not made; the boundary itself may refuse parts of it.
type attack func(attempt int64) error

// attacks returns the attacks of the pods, by name.
func attacks() map[string]attack {
	return map[string]attack{
		"files":   replaceFiles,
		"probes":  openConnections,
		"writes":  writeOwnCgroup,
		"cgroups": makeCgroups,
		"threads": moveThreads,
		"nested":  nestCgroups,
		"crowd":   startThreads,
	}
}

// TestMain runs an attack if the program is started in the container of an attacker: attack NAME.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "attack" {
		run(os.Args[2])
	}
	os.Exit(m.Run())
}

// run repeats an attack until the container ends, and writes the number of attempts to a file each 100 ms.
func run(name string) {
	one := attacks()[name]
	if one == nil {
		fmt.Fprintln(os.Stderr, "unknown attack", name)
		os.Exit(2)
	}
	var attempts atomic.Int64
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			_ = os.WriteFile(filepath.Join(progressInside, name), strconv.AppendInt(nil, attempts.Load(), 10), 0o644)
		}
	}()
	for {
		if err := one(attempts.Load()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(10 * time.Millisecond) // the next attempt may succeed
			continue
		}
		attempts.Add(1)
	}
}

// replaceFiles replaces the container's file by another object: a pipe, a link to an endless device, or a link to a file of the host. Other
// objects are a directory and a large file. The pod's directory is mounted writable.
func replaceFiles(attempt int64) error {
	file := filepath.Join(ownFiles, "app.json")
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	defer time.Sleep(20 * time.Millisecond) // the daemon must find each kind at times
	switch attempt % 5 {
	case 0:
		return syscall.Mkfifo(file, 0o666)
	case 1:
		return os.Symlink("/dev/zero", file)
	case 2:
		return os.Symlink("/etc/hostname", file)
	case 3:
		return os.MkdirAll(filepath.Join(file, strings.Repeat("d/", 50)), 0o777)
	}
	return os.WriteFile(file, make([]byte, 4<<20), 0o666)
}

// connections is the number of connections that openConnections holds at most.
const connections = 256

var held [connections]net.Conn

// openConnections opens a connection to the daemon's port and sends part of a request. It holds the last connections.
func openConnections(attempt int64) error {
	c, err := net.DialTimeout("tcp", "127.0.0.1:9466", time.Second)
	if err != nil {
		return err
	}
	_, _ = c.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\nX: "))
	i := attempt % connections
	if held[i] != nil {
		_ = held[i].Close()
	}
	held[i] = c
	return nil
}

// ownCgroup returns the directory of the container's cgroup. The runtime gives a privileged container all cgroups of the node.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	return filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(strings.TrimSpace(string(text)), "0::")), err
}

// writeOwnCgroup writes three files of the container's own cgroup: all CPUs of the node, a quota and a weight. The daemon confines the slice
// of its pod, so that it takes no CPUs from other pods (docs/reference/boundaries.md).
func writeOwnCgroup(attempt int64) error {
	own, err := ownCgroup()
	return errors.Join(err,
		os.WriteFile(filepath.Join(own, "cpuset.cpus"), []byte("0-7"), 0o644),
		os.WriteFile(filepath.Join(own, "cpu.max"), []byte("max 100000"), 0o644),
		os.WriteFile(filepath.Join(own, "cpu.weight"), strconv.AppendInt(nil, 1+attempt%10000, 10), 0o644))
}

// makeCgroups makes and removes cgroups below the container's own.
func makeCgroups(attempt int64) error {
	own, err := ownCgroup()
	if err != nil {
		return err
	}
	dir := filepath.Join(own, fmt.Sprintf("tenant-%d", attempt%500))
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if attempt%2 == 1 {
		return os.Remove(dir)
	}
	return nil
}

// threads is the number of threads of moveThreads.
const threads = 400

// moveThreads starts threads that set their own affinity to all CPUs, over and over.
func moveThreads(attempt int64) error {
	set := func() error {
		var all unix.CPUSet
		for cpu := range 8 {
			all.Set(cpu)
		}
		return unix.SchedSetaffinity(0, &all)
	}
	if attempt == 0 {
		for range threads {
			go func() {
				runtime.LockOSThread()
				for range time.Tick(100 * time.Millisecond) {
					_ = set()
				}
			}()
		}
	}
	time.Sleep(time.Millisecond)
	return set()
}

const (
	// nested is the number of cgroups of nestCgroups.
	nested = 20_000
	// crowd is the maximum number of threads of startThreads.
	crowd = 25_000
)

// nestCgroups makes cgroups below the container's own, 100 in each of their parents, and keeps them.
func nestCgroups(attempt int64) error {
	if attempt >= nested {
		time.Sleep(time.Second)
		return errors.New("all cgroups exist")
	}
	own, err := ownCgroup()
	if err != nil {
		return err
	}
	parent := filepath.Join(own, fmt.Sprintf("nest-%d", attempt/100))
	if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Mkdir(filepath.Join(parent, strconv.FormatInt(attempt, 10)), 0o755)
}

// startThreads starts a thread that sleeps. It ends with an error at crowd threads, and at the limit of the node.
func startThreads(attempt int64) error {
	if attempt == 0 {
		debug.SetMaxThreads(2 * crowd)
		own, err := ownCgroup()
		if err := errors.Join(err, os.WriteFile(filepath.Join(own, "pids.max"), []byte("max"), 0o644)); err != nil {
			return err // systemd's default is 15 % of the node's limit
		}
	}
	if attempt >= crowd {
		time.Sleep(time.Second)
		return errors.New("all threads run")
	}
	// Go ends the process if it cannot start a thread. So the attack leaves room below the limits of the node and of the pod.
	if attempt%100 == 0 {
		if err := hasRoom(); err != nil {
			time.Sleep(time.Second)
			return err
		}
	}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(started)
		for {
			_ = unix.Nanosleep(&unix.Timespec{Sec: 3600}, nil) // a signal ends it early
		}
	}()
	<-started
	return nil
}

// hasRoom returns an error if fewer than 1,000 more threads fit into the container's cgroup, or less than 512 MiB of memory are available.
func hasRoom() error {
	own, err := ownCgroup()
	if err != nil {
		return err
	}
	number := func(file string) (n int64) {
		text, err := os.ReadFile(file)
		if err != nil || strings.HasPrefix(string(text), "max") {
			return math.MaxInt64
		}
		_, _ = fmt.Sscan(string(text), &n)
		return n
	}
	for dir := own; dir != "/sys/fs/cgroup"; dir = filepath.Dir(dir) {
		if limit := number(filepath.Join(dir, "pids.max")); limit < math.MaxInt64 && limit-number(filepath.Join(dir, "pids.current")) < 1000 {
			return fmt.Errorf("pids.max of %s is %d", dir, limit)
		}
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return err
	}
	if kib < 512<<10 {
		return fmt.Errorf("%d KiB of memory are available", kib)
	}
	return nil
}

// attacker returns a pod with one container that runs an attack. More are further fields of the container.
func attacker(name string, more map[string]any) manifest.Pod {
	mount := func(volume, path string) map[string]any { return map[string]any{"name": volume, "mountPath": path} }
	hostPath := func(volume, path, kind string) map[string]any {
		return map[string]any{"name": volume, "hostPath": map[string]any{"path": path, "type": kind}}
	}
	own := mount("files", ownFiles)
	own["subPathExpr"] = "$(POD_UID)"
	container := map[string]any{
		"command": []string{programInside, "attack", name}, "args": []string{},
		"env": []map[string]any{
			{"name": "POD_UID", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.uid"}}},
			{"name": "OPENSHIFT_SHARED_CPUS", "value": "4-7"},
		},
		"volumeMounts": []map[string]any{mount("program", programInside), mount("progress", progressInside), own},
	}
	maps.Copy(container, more)
	return manifest.Pod{
		Name: name, Namespace: "default",
		Annotations: map[string]string{
			"example.org/note":       strings.Repeat("x", 100<<10),
			"cpu-quota.crio.io/note": strings.Repeat("x", 100<<10), // the daemon reads annotations with this prefix
		},
		Containers: []manifest.Container{{Name: "app", More: container}},
		Volumes: []map[string]any{
			hostPath("program", program, "File"), hostPath("progress", progress, "Directory"), hostPath("files", files, "DirectoryOrCreate"),
		},
	}
}
