package hostkubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/node/procroot"
)

// File is a configuration file of the kubelet, by the kubelet's name, or its error.
type File struct {
	Name string
	Data []byte
	Err  error
}

// Files returns the configuration files in the order in which the kubelet applies them: the file
// of --config, then *.conf in --config-dir. If no kubelet runs, the only file is config.yaml in
// dir, the path of kubeadm, if it exists.
func (k Kubelet) Files(dir string) []File {
	name := path.Join(dir, "config.yaml")
	if k.PID != 0 {
		name = k.Flags["config"]
	}
	var files []File
	if name != "" {
		b, err := k.ReadFile(name)
		if k.PID != 0 || !errors.Is(err, fs.ErrNotExist) {
			files = append(files, File{name, b, err})
		}
	}
	return append(files, k.dropIns(k.Flags["config-dir"])...)
}

// ReadFile reads a file as the kubelet sees it. A relative name begins at its working directory.
func (k Kubelet) ReadFile(name string) ([]byte, error) {
	at, err := k.Root.Name(name)
	if err != nil {
		return nil, err
	}
	b, err := procroot.ReadFile(k.Root.Host(), at)
	if wrong, ok := errors.AsType[*fs.PathError](err); ok {
		wrong.Path = name
	}
	return b, err
}

// dropIns returns the files of --config-dir in the kubelet's order (fs.WalkDir).
func (k Kubelet) dropIns(dir string) []File {
	if dir == "" {
		return nil
	}
	at, err := k.Root.Name(dir)
	var names []string
	if err == nil {
		err = fs.WalkDir(k.Root.Host(), at, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && path.Ext(name) == ".conf" {
				names = append(names, path.Join(dir, strings.TrimPrefix(name, at)))
			}
			return err
		})
	}
	if err != nil {
		return []File{{Name: dir, Err: err}}
	}
	files := make([]File, len(names))
	for i, name := range names {
		b, err := k.ReadFile(name)
		files[i] = File{name, b, err}
	}
	return files
}

// defaultEndpoint is the endpoint of a kubelet without a configured one (since Kubernetes 1.27).
const defaultEndpoint = "unix:///run/containerd/containerd.sock"

// Endpoint returns the endpoint of the container runtime that the kubelet uses, as this process
// can connect to it. It is empty if no kubelet runs, or if K3s has not stated it. Dir is as in Files. A file that cannot be
// read is an error, because it may have another endpoint.
func (k Kubelet) Endpoint(dir string) (string, error) {
	if k.PID == 0 {
		return "", nil
	}
	endpoint := defaultEndpoint
	if k.embedded {
		endpoint = ""
	}
	for _, f := range k.Files(dir) {
		var keys struct {
			Endpoint *string `yaml:"containerRuntimeEndpoint"`
		}
		if f.Err == nil {
			f.Err = yaml.Unmarshal(f.Data, &keys)
		}
		if f.Err != nil && k.Flags["container-runtime-endpoint"] == "" {
			return "", fmt.Errorf("read the endpoint of the kubelet (process %d) in %s: %w", k.PID, f.Name, f.Err)
		}
		if keys.Endpoint != nil && *keys.Endpoint != "" {
			endpoint = *keys.Endpoint
		}
	}
	if flag := k.Flags["container-runtime-endpoint"]; flag != "" {
		endpoint = flag
	}
	if endpoint == "" {
		return "", nil
	}
	socket, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok && strings.Contains(endpoint, "://") {
		return "", fmt.Errorf("the kubelet (process %d) uses the endpoint %s, which is not a Unix socket", k.PID, endpoint)
	}
	return k.socket(path.Clean("/" + socket))
}

// socket returns an endpoint that this process can open: a link to it may be missing here.
func (k Kubelet) socket(name string) (string, error) {
	host := k.Root.Host()
	at, err := k.Root.Name(name)
	if err != nil {
		return "", err
	}
	direct := at
	if parts := strings.SplitN(at, "/", 4); strings.HasPrefix(at, "proc/") && len(parts) == 4 {
		direct = parts[3]
	}
	machine, err := procroot.Of(host, initPID).Name("/" + direct)
	if err != nil {
		machine = direct
	}
	for _, known := range []string{name[1:], direct, machine, at} { // only the last one ends with the kubelet's process
		if _, err := fs.Stat(host, known); err == nil {
			return "unix:///" + known, nil
		}
	}
	return "unix://" + name, nil // the runtime has not started yet
}
