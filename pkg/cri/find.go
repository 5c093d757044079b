package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// findTimeout bounds the wait for one socket, so that a hung runtime doesn't
// hide the others. All are queried at once. A slow runtime is usually the one of a node with
// many starts and stops of containers, and often the only one.
const findTimeout = 10 * time.Second

// sockets returns where the distributions put the runtime's socket.
func sockets() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/var/run/containerd/containerd.sock",
		"/run/crio/crio.sock",
		"/var/run/crio/crio.sock",
		"/run/k3s/containerd/containerd.sock", // K3s and RKE2
		"/run/k0s/containerd.sock",
		"/var/snap/microk8s/common/run/containerd.sock",
		"/run/cri-dockerd.sock", // so that the containerd of Docker does not count as the runtime
		"/var/run/cri-dockerd.sock",
	}
}

// Find returns the endpoint of the runtime that answers on a socket where the
// distributions of Kubernetes put it. If several answer, it is the only one with
// pods that run, or the only one with pods if none runs. Otherwise the error states the sockets that were tried, and how to choose.
// The sockets are below root, normally "/".
//
// A containerd without its CRI plugin (as Docker runs it) does not answer.
func Find(ctx context.Context, root string) (string, error) {
	paths := existing(root, sockets())
	probes := make([]probed, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		wg.Go(func() { probes[i] = probe(ctx, p) })
	}
	wg.Wait()

	var answering, used, running, tried []string
	for i, p := range paths {
		if err := probes[i].err; err != nil {
			tried = append(tried, fmt.Sprintf("%s (%v)", p, err))
			continue
		}
		answering = append(answering, "unix://"+p)
		if probes[i].pods {
			used = append(used, "unix://"+p)
		}
		if probes[i].runs {
			running = append(running, "unix://"+p)
		}
	}
	switch {
	case len(answering) == 1:
		return answering[0], nil
	case len(running) == 1:
		return running[0], nil
	case len(running) == 0 && len(used) == 1:
		return used[0], nil
	case len(answering) > 1:
		return "", fmt.Errorf("find container runtime: %d runtimes answer: %s; name one of them as containerRuntimeEndpoint",
			len(answering), strings.Join(answering, ", "))
	case len(tried) > 0:
		return "", fmt.Errorf("find container runtime: no runtime answers: tried %s; start it, or name its socket as containerRuntimeEndpoint",
			strings.Join(tried, ", "))
	default:
		return "", fmt.Errorf("find container runtime: no socket at %s below %s; start the runtime, or name its socket as containerRuntimeEndpoint. "+
			"On a machine without containers, set containerRuntimeEndpoint to none",
			strings.Join(sockets(), ", "), root)
	}
}

// existing returns those paths below root at which there is something, each
// file once: /var/run is a link to /run nearly everywhere.
func existing(root string, paths []string) []string {
	var found []string
	var files []fs.FileInfo
	for _, p := range paths {
		p = filepath.Join(root, p)
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// Anything else, a missing permission above all, shows when it is probed.
		if err == nil {
			if slices.ContainsFunc(files, func(f fs.FileInfo) bool { return os.SameFile(f, info) }) {
				continue
			}
			files = append(files, info)
		}
		found = append(found, p)
	}
	return found
}

type probed struct {
	pods bool // the runtime has pods
	runs bool // a pod runs. After a boot none runs, and a runtime that is not in use can keep old pods.
	err  error
}

func probe(ctx context.Context, socket string) (p probed) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	c, err := Dial(socket, nil)
	if err != nil {
		return probed{err: err}
	}
	defer func() { p.err = errors.Join(p.err, c.Close()) }()
	if _, _, err = c.Version(ctx); err != nil {
		return probed{err: err}
	}
	pods, _, _ := c.List(ctx) // the daemon could not place pods that the runtime does not list
	return probed{pods: len(pods) > 0, runs: slices.ContainsFunc(pods, func(p Pod) bool { return p.Ready })}
}
