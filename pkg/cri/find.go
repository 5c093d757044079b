package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// findTimeout bounds the wait for one socket, so that a hung runtime doesn't
// hide the others. All are asked at once. It is the runtime of a node on which
// much begins and ends that is slow, and often the only one there is.
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
	}
}

// Find returns the endpoint of the one runtime that answers on a socket where
// the distributions of Kubernetes put it. If none does, or more than one, the
// error says what was tried and how to choose. The sockets are looked for below
// root, normally "/".
//
// A containerd without its CRI plugin (as Docker runs it) does not answer.
func Find(ctx context.Context, root string) (string, error) {
	paths := existing(root, sockets())
	refusals := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		wg.Go(func() { refusals[i] = probe(ctx, p) })
	}
	wg.Wait()

	var answering, tried []string
	for i, p := range paths {
		if refusals[i] == nil {
			answering = append(answering, "unix://"+p)
		} else {
			tried = append(tried, fmt.Sprintf("%s (%v)", p, refusals[i]))
		}
	}
	switch {
	case len(answering) == 1:
		return answering[0], nil
	case len(answering) > 1:
		return "", fmt.Errorf("find container runtime: %d runtimes answer: %s: name one of them as containerRuntimeEndpoint",
			len(answering), strings.Join(answering, ", "))
	case len(tried) > 0:
		return "", fmt.Errorf("find container runtime: no runtime answers: tried %s: start it, or name its socket as containerRuntimeEndpoint",
			strings.Join(tried, ", "))
	default:
		return "", fmt.Errorf("find container runtime: no socket at %s below %s: start the runtime, or name its socket as containerRuntimeEndpoint",
			strings.Join(sockets(), ", "), root)
	}
}

// existing returns those paths below root at which there is something, each
// file once: /var/run is a link to /run nearly everywhere.
func existing(root string, paths []string) []string {
	var found []string
	var files []fs.FileInfo
next:
	for _, p := range paths {
		p = filepath.Join(root, p)
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// Anything else, a missing permission above all, shows when it is probed.
		if err == nil {
			for _, f := range files {
				if os.SameFile(f, info) {
					continue next
				}
			}
			files = append(files, info)
		}
		found = append(found, p)
	}
	return found
}

func probe(ctx context.Context, socket string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	c, err := Dial(socket, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	_, _, err = c.Version(ctx)
	return err
}
