package hostkubelet_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/node/hostkubelet"
)

const dir = "/var/lib/kubelet"

// machine returns the files of a machine. Arguments in a cmdline are separated by spaces.
func machine(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/1/root/etc/os-release": {}, "proc/1/cmdline": {Data: []byte("/sbin/init\x00")}}
	for name, data := range files {
		target, isLink := strings.CutPrefix(data, "-> ")
		switch {
		case isLink:
			m[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		case strings.HasSuffix(name, "/cmdline"):
			m[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(data, " ", "\x00") + "\x00")}
		default:
			m[name] = &fstest.MapFile{Data: []byte(data)}
		}
	}
	return m
}

// TestEndpoint checks the endpoint of the kubelet's runtime, as the reader can connect to it.
func TestEndpoint(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
		err   string
	}{
		"no kubelet": {},
		"only configured": {
			files: map[string]string{"proc/1/root/var/lib/kubelet/config.yaml": "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"},
		},
		"the default": {
			files: map[string]string{"proc/5/cmdline": "kubelet --v=2", "proc/5/root/etc/hosts": ""},
			want:  "unix:///run/containerd/containerd.sock",
		},
		"a flag": {
			files: map[string]string{"proc/5/cmdline": "kubelet --container-runtime-endpoint=unix:///run/crio/crio.sock --config=/missing", "proc/5/root/etc/hosts": ""},
			want:  "unix:///run/crio/crio.sock",
		},
		"a path without scheme": {
			files: map[string]string{"proc/5/cmdline": "kubelet --container-runtime-endpoint /run/crio/crio.sock"},
			want:  "unix:///run/crio/crio.sock",
		},
		"a file": {
			files: map[string]string{"proc/5/cmdline": "kubelet --config=/etc/k.yaml", "proc/5/root/etc/k.yaml": "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n"},
			want:  "unix:///run/crio/crio.sock",
		},
		"the last drop-in": {
			files: map[string]string{
				"proc/5/cmdline":             "kubelet --config=/etc/k.yaml --config-dir=/etc/k.d",
				"proc/5/root/etc/k.yaml":     "containerRuntimeEndpoint: unix:///run/a.sock\n",
				"proc/5/root/etc/k.d/1":      "containerRuntimeEndpoint: unix:///run/ignored.sock\n",
				"proc/5/root/etc/k.d/1.conf": "containerRuntimeEndpoint: unix:///run/b.sock\n",
				"proc/5/root/etc/k.d/2.conf": `{"containerRuntimeEndpoint": "unix:///run/c.sock"}`,
				"proc/5/root/etc/k.d/3.conf": "cpuManagerPolicy: none\n",
			},
			want: "unix:///run/c.sock",
		},
		"the link /var/run, which the pod lacks": {
			files: map[string]string{
				"proc/5/cmdline": "kubelet --container-runtime-endpoint=unix:///var/run/crio/crio.sock", "proc/5/root/var/run": "-> /run",
				"proc/5/root/run/crio/crio.sock": "", "run/crio/crio.sock": "",
			},
			want: "unix:///run/crio/crio.sock",
		},
		"a socket of the machine, which the pod lacks": {
			files: map[string]string{
				"proc/5/cmdline":                 "kubelet --container-runtime-endpoint=unix:///var/lib/r.sock",
				"proc/5/root/var/lib/r.sock":     "",
				"proc/1/root/var/lib/r.sock":     "",
				"proc/5/root/var/lib/other.sock": "",
			},
			want: "unix:///proc/1/root/var/lib/r.sock",
		},
		"a socket in the kubelet's container": {
			files: map[string]string{
				"proc/5/cmdline": "kubelet --container-runtime-endpoint=unix:///var/containerd/c.sock", "proc/5/root/var/containerd/c.sock": "",
			},
			want: "unix:///proc/5/root/var/containerd/c.sock",
		},
		"an unreadable file": {
			files: map[string]string{"proc/5/cmdline": "kubelet --config=/etc/k.yaml", "proc/5/root/etc/hosts": ""},
			err:   "/etc/k.yaml",
		},
		"a directory": {
			files: map[string]string{"proc/5/cmdline": "kubelet --config=/etc", "proc/5/root/etc/hosts": ""},
			err:   "not a regular file",
		},
		"a file that is no YAML": {
			files: map[string]string{"proc/5/cmdline": "kubelet --config=/etc/k.yaml", "proc/5/root/etc/k.yaml": "a: ["},
			err:   "/etc/k.yaml",
		},
		"no socket": {
			files: map[string]string{"proc/5/cmdline": "kubelet --container-runtime-endpoint=npipe:////./pipe/containerd"},
			err:   "not a Unix socket",
		},
		"K3s": {
			files: map[string]string{"proc/5/cmdline": "/usr/local/bin/k3s server", "proc/5/root/run/k3s/containerd/containerd.sock": "", "run/k3s/containerd/containerd.sock": ""},
			want:  "unix:///run/k3s/containerd/containerd.sock",
		},
		"K3s without its containerd": {
			files: map[string]string{"proc/5/cmdline": "/usr/local/bin/k3s server", "proc/5/root/etc/hosts": ""},
		},
		"K3s before it writes its drop-ins": {
			files: map[string]string{"proc/5/cmdline": "/usr/local/bin/k3s server", "proc/5/root/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/README": ""},
		},
		"K3s with drop-ins and another directory": {
			files: map[string]string{
				"proc/5/cmdline": "/usr/local/bin/k3s agent --data-dir /data",
				"proc/5/root/data/agent/etc/kubelet.conf.d/00-k3s-defaults.conf": "containerRuntimeEndpoint: unix:///run/k3s/cri-dockerd/cri-dockerd.sock\n",
			},
			want: "unix:///run/k3s/cri-dockerd/cri-dockerd.sock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hostkubelet.Find(machine(test.files)).Endpoint(dir)
			if got != test.want || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("Endpoint = %q, %v; want %q, an error with %q", got, err, test.want, test.err)
			}
		})
	}
}

// TestFind checks which process is the kubelet of the node.
func TestFind(t *testing.T) {
	const pod = "0::/kubepods.slice/kubepods-poda.slice/cri-containerd-1.scope\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int
	}{
		"none":                      {files: map[string]string{"proc/5/cmdline": "/usr/bin/kubelet-wrapper", "proc/6/cmdline": "k3s kubectl", "proc/self/cmdline": "kubelet"}},
		"the lowest":                {files: map[string]string{"proc/50/cmdline": "kubelet", "proc/6/cmdline": "/bin/kubelet"}, want: 6},
		"not nested":                {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/6/status": "Name:\tkubelet\nNSpid:\t6\t1\n", "proc/50/cmdline": "kubelet", "proc/50/status": "NSpid:\t50\n"}, want: 50},
		"nested only":               {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/6/status": "NSpid:\t6\t3\t1\n"}},
		"in a pod":                  {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/6/cgroup": pod, "proc/1/cgroup": "0::/init.scope\n"}},
		"in a machine in a pod":     {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/6/cgroup": pod, "proc/1/cgroup": pod}, want: 6},
		"a kubelet, not K3s":        {files: map[string]string{"proc/6/cmdline": "k3s server", "proc/50/cmdline": "kubelet"}, want: 50},
		"a kubelet before K3s":      {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/50/cmdline": "k3s server"}, want: 6},
		"K3s, with a nested one":    {files: map[string]string{"proc/6/cmdline": "kubelet", "proc/6/status": "NSpid:\t6\t1\n", "proc/50/cmdline": "/usr/bin/k3s server"}, want: 50},
		"K3s in a word, as it sets": {files: map[string]string{"proc/6/cmdline": "/usr/local/bin/k3s agent --node-name a"}, want: 6},
	} {
		t.Run(name, func(t *testing.T) {
			if k := hostkubelet.Find(machine(test.files)); k.PID != test.want {
				t.Errorf("the kubelet is process %d; want %d", k.PID, test.want)
			}
		})
	}
}

// TestNested checks that Find uses no file in the root of a nested process.
func TestNested(t *testing.T) {
	for _, cmdline := range []string{"k3s server", "kubelet --config=/etc/k.yaml"} {
		files := hung{machine(map[string]string{"proc/6/cmdline": cmdline, "proc/6/status": "NSpid:\t6\t1\n", "proc/6/root/etc/k.yaml": ""}), t}
		if k := hostkubelet.Find(files); k.PID != 0 {
			t.Errorf("%s: process %d is the kubelet; want none", cmdline, k.PID)
		}
	}
}

// hung reports uses of the files of process 6. In a container they can be in a file system that
// does not answer.
type hung struct {
	fstest.MapFS
	t *testing.T
}

func (h hung) Open(name string) (fs.File, error) {
	h.see(name)
	return h.MapFS.Open(name)
}

func (h hung) Stat(name string) (fs.FileInfo, error) {
	h.see(name)
	return h.MapFS.Stat(name)
}

func (h hung) Lstat(name string) (fs.FileInfo, error) {
	h.see(name)
	return h.MapFS.Lstat(name)
}

func (h hung) see(name string) {
	if strings.HasPrefix(name, "proc/6/root") {
		h.t.Errorf("%s is used", name)
	}
}

// TestEnded checks that a process which ends during the search is not the kubelet.
func TestEnded(t *testing.T) {
	files := ending{machine(map[string]string{"proc/6/cmdline": "kubelet", "proc/6/status": "NSpid:\t6\t1\n"})}
	if k := hostkubelet.Find(files); k.PID != 0 {
		t.Errorf("process %d is the kubelet; want none", k.PID)
	}
}

// ending is a machine. Its process 6 ends when its command line is read.
type ending struct{ fstest.MapFS }

func (e ending) Open(name string) (fs.File, error) {
	f, err := e.MapFS.Open(name)
	if name == "proc/6/cmdline" {
		delete(e.MapFS, "proc/6/cmdline")
		delete(e.MapFS, "proc/6/status")
	}
	return f, err
}
