package hostkubelet

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Kubelet is the kubelet of this node.
type Kubelet struct {
	PID   int               // 0 if no kubelet runs
	Flags map[string]string // by name, without dashes in front
	Root  procroot.FS       // its files; the files of the machine if no kubelet runs
}

// initPID is the first process of the PID namespace. In a pod with hostPID it belongs to the host.
const initPID = 1

// maxFile is the maximum size of a file in bytes.
const maxFile = 1 << 20

// Find returns the kubelet of this node. Of several it is the process with the lowest number. A
// kubelet that is part of K3s counts if no other runs.
func Find(host fs.FS) Kubelet {
	k := Kubelet{Root: procroot.Of(host, initPID)}
	entries, _ := fs.ReadDir(host, "proc") // without /proc no kubelet is known
	embedded := false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, err := readFile(host, "proc/"+e.Name()+"/cmdline")
		if err != nil {
			continue // the process has ended, or access is denied
		}
		program, _, _ := bytes.Cut(cmdline, []byte{0})
		flags, isK3s := k3sFlags(host, pid, cmdline)
		switch {
		case path.Base(string(program)) == "kubelet":
			isK3s, flags = false, parseFlags(cmdline)
		case !isK3s:
			continue
		}
		if better := k.PID == 0 || embedded && !isK3s || embedded == isK3s && pid < k.PID; better && !isNested(host, pid) {
			k, embedded = Kubelet{pid, flags, procroot.Of(host, pid)}, isK3s
		}
	}
	return k
}

// isNested reports whether a process is in a PID namespace below the reader's, or in a pod.
func isNested(host fs.FS, pid int) bool {
	dir := "proc/" + strconv.Itoa(pid)
	status, _ := readFile(host, dir+"/status") // without an answer the process counts as the host's
	for line := range bytes.Lines(status) {
		// NSpid has the process's number in each PID namespace (proc_pid_status(5)).
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok && len(bytes.Fields(ids)) > 1 {
			return true
		}
	}
	return inPod(host, dir) && !inPod(host, "proc/"+strconv.Itoa(initPID)) // the whole machine may be in a pod
}

// inPod reports whether the cgroup of a process is in a pod.
func inPod(host fs.FS, dir string) bool {
	b, _ := readFile(host, dir+"/cgroup")
	for line := range strings.Lines(string(b)) {
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			_, _, in := cgroup.PodOf(cgroup.Path(at))
			return in
		}
	}
	return false
}

// parseFlags parses /proc/PID/cmdline. The kubelet accepts --name=value, --name value and _
// instead of -. The last value of a flag counts.
func parseFlags(cmdline []byte) map[string]string {
	return maps.Collect(eachFlag(cmdline))
}

// eachFlag yields the flags of a command line in their order.
func eachFlag(cmdline []byte) iter.Seq2[string, string] {
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return func(yield func(name, value string) bool) {
		for i := 1; i < len(args); i++ {
			arg, ok := strings.CutPrefix(args[i], "--")
			if !ok || arg == "" {
				continue
			}
			name, value, ok := strings.Cut(arg, "=")
			if !ok && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
				i++
				value = args[i]
			}
			if !yield(strings.ReplaceAll(name, "_", "-"), value) {
				return
			}
		}
	}
}

// k3sSocket is the socket of the containerd that K3s runs.
const k3sSocket = "unix:///run/k3s/containerd/containerd.sock"

// k3sFlags returns the flags of the kubelet in a K3s process. K3s writes its defaults into a
// directory of drop-ins (since v1.32, docs.k3s.io/advanced), and --kubelet-arg has further flags.
func k3sFlags(host fs.FS, pid int, cmdline []byte) (flags map[string]string, isK3s bool) {
	words := strings.Fields(strings.ReplaceAll(string(cmdline), "\x00", " "))
	if len(words) < 2 || path.Base(words[0]) != "k3s" || words[1] != "server" && words[1] != "agent" {
		return nil, false
	}
	flags = make(map[string]string)
	dir := "/var/lib/rancher/k3s"
	docker := false
	for name, value := range eachFlag([]byte(strings.Join(words, "\x00"))) {
		switch name {
		case "data-dir":
			dir = value
		case "docker":
			docker = true
		case "container-runtime-endpoint":
			flags[name] = value
		case "kubelet-arg":
			name, value, _ := strings.Cut(value, "=")
			flags[name] = value
		}
	}
	defaults := path.Join(dir, "agent/etc/kubelet.conf.d")
	if at, err := procroot.Of(host, pid).Name(defaults); err == nil {
		_, err = fs.Stat(host, at)
		switch {
		case err == nil && flags["config-dir"] == "":
			flags["config-dir"] = defaults
		case err != nil && flags["container-runtime-endpoint"] == "" && !docker: // an earlier version
			flags["container-runtime-endpoint"] = k3sSocket
		}
	}
	return flags, true
}

// readFile reads a file of at most maxFile bytes.
func readFile(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("read %s: more than %d bytes", name, maxFile)
	}
	return b, err
}
