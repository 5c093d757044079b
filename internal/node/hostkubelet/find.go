package hostkubelet

import (
	"bytes"
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

	embedded bool // part of K3s
}

// initPID is the first process of the PID namespace. In a pod with hostPID it belongs to the host.
const initPID = 1

// Find returns the kubelet of this node. Of several it is the process with the lowest number. A
// kubelet that is part of K3s counts if no other runs.
func Find(host fs.FS) Kubelet {
	k := Kubelet{Root: procroot.Of(host, initPID)}
	entries, _ := fs.ReadDir(host, "proc") // without /proc no kubelet is known
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, err := procroot.ReadFile(host, "proc/"+e.Name()+"/cmdline")
		if err != nil {
			continue // the process has ended, or access is denied
		}
		program, _, _ := bytes.Cut(cmdline, []byte{0})
		words := k3sWords(cmdline)
		isK3s := words != nil
		if path.Base(string(program)) == "kubelet" {
			isK3s = false
		} else if !isK3s {
			continue
		}
		// No file of a nested process is read: a container can have a file system that does not answer.
		if better := k.PID == 0 || k.embedded && !isK3s || k.embedded == isK3s && pid < k.PID; !better || isNested(host, pid) {
			continue
		}
		k = Kubelet{PID: pid, Root: procroot.Of(host, pid), embedded: isK3s}
		if isK3s {
			k.Flags = k3sFlags(k.Root, words)
		} else {
			k.Flags = maps.Collect(eachFlag(cmdline))
		}
	}
	return k
}

// isNested reports whether a process is in a PID namespace below the reader's, or in a pod. A
// process that has ended counts as nested: its files are gone, and a pod chooses its command line.
func isNested(host fs.FS, pid int) bool {
	dir := "proc/" + strconv.Itoa(pid)
	status, _ := procroot.ReadFile(host, dir+"/status") // without an answer the process counts as the host's
	for line := range bytes.Lines(status) {
		// NSpid has the process's number in each PID namespace (proc_pid_status(5)).
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok && len(bytes.Fields(ids)) > 1 {
			return true
		}
	}
	if inPod(host, dir) && !inPod(host, "proc/"+strconv.Itoa(initPID)) { // the whole machine may be in a pod
		return true
	}
	_, err := fs.Stat(host, dir+"/cmdline")
	return err != nil
}

func inPod(host fs.FS, dir string) bool {
	b, _ := procroot.ReadFile(host, dir+"/cgroup")
	for line := range strings.Lines(string(b)) {
		if at, ok := strings.CutPrefix(strings.TrimSpace(line), "0::/"); ok {
			return cgroup.Path(at).InPod()
		}
	}
	return false
}

// eachFlag accepts --name=value, --name value and _ instead of -. The last value counts.
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

const k3sSocket = "/run/k3s/containerd/containerd.sock"

// hasSocket reports whether K3s runs containerd: K3s hides its arguments.
func hasSocket(root procroot.FS) bool {
	at, err := root.Name(k3sSocket)
	if err == nil {
		_, err = fs.Stat(root.Host(), at)
	}
	return err == nil
}

// k3sWords returns the command line of a K3s process with a kubelet, or nil.
func k3sWords(cmdline []byte) []string {
	words := strings.Fields(strings.ReplaceAll(string(cmdline), "\x00", " "))
	if len(words) < 2 || path.Base(words[0]) != "k3s" || words[1] != "server" && words[1] != "agent" {
		return nil
	}
	return words
}

// k3sFlags reads --kubelet-arg and K3s's drop-ins (since v1.32, docs.k3s.io/advanced).
func k3sFlags(root procroot.FS, words []string) map[string]string {
	flags := make(map[string]string)
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
	if at, err := root.Name(defaults); err == nil {
		_, err = fs.Stat(root.Host(), at)
		switch {
		case err == nil && flags["config-dir"] == "":
			flags["config-dir"] = defaults
		case err != nil && flags["container-runtime-endpoint"] == "" && !docker && hasSocket(root): // an earlier version
			flags["container-runtime-endpoint"] = "unix://" + k3sSocket
		}
	}
	return flags
}
