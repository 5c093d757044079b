package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

type daemonFlags struct {
	namespace string
	selector  string
}

func (d *daemonFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&d.namespace, "daemon-namespace", "cpupoold", "`NAMESPACE` of the daemons' pods")
	flags.StringVar(&d.selector, "daemon-selector", "app.kubernetes.io/name=cpupoold", "`LABELS` of the daemons' pods")
}

// daemons holds the daemons of a cluster, by node. Queries use `kubectl exec` in their pods,
// because only root on the node may use their socket.
type daemons struct {
	api    *api
	byNode map[string]*corev1.Pod
	at     daemonFlags
}

// daemons finds the pods of the daemons that run.
func (c *clusterFlags) daemons(ctx context.Context, d daemonFlags) (*daemons, error) {
	selector, err := labels.Parse(d.selector)
	if err != nil {
		return nil, fmt.Errorf("--daemon-selector: %w", err)
	}
	a, err := c.connect()
	if err != nil {
		return nil, err
	}
	pods, err := objectsOf[corev1.Pod](ctx, a, "/api/v1/namespaces/"+url.PathEscape(d.namespace)+"/pods", "application/json")
	if err != nil {
		return nil, err
	}
	found := &daemons{api: a, byNode: make(map[string]*corev1.Pod), at: d}
	for i := range pods {
		if p := &pods[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
			found.byNode[p.Spec.NodeName] = p
		}
	}
	return found, nil
}

func (d *daemons) missing(node string) error {
	return fmt.Errorf("node %s: no pod of a daemon runs there (%s in namespace %s): it may be a systemd unit, then ask on the node, or have other labels, see --daemon-selector", node, d.at.selector, d.at.namespace)
}

// run runs the program of a node's daemon in its pod.
func (d *daemons) run(ctx context.Context, node string, out io.Writer, args ...string) error {
	pod := d.byNode[node]
	if pod == nil {
		return d.missing(node)
	}
	at := d.api.server.JoinPath("/api/v1/namespaces", pod.Namespace, "pods", pod.Name, "exec")
	at.RawQuery = url.Values{"container": {daemonIn(pod)}, "command": append([]string{"cpupoold"}, args...), "stdout": {"true"}, "stderr": {"true"}}.Encode()
	run, err := executor(d.api.config, at)
	if err != nil {
		return err
	}
	complaints := limited{room: maxComplaint}
	// client-go logs when ctx ends the connection, and the result has all other errors.
	ctx = logr.NewContext(ctx, logr.Discard())
	if err := run.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: &complaints}); err != nil {
		return fmt.Errorf("node %s: cpupoold %s in pod %s/%s: %w", node, strings.Join(args, " "), pod.Namespace, pod.Name, withText(err, &complaints.Buffer))
	}
	return nil
}

// daemonIn is the daemon's container in its pod: others, as a proxy of its metrics, can
// stand before it.
func daemonIn(pod *corev1.Pod) string {
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "cpupoold" }) {
		return "cpupoold"
	}
	return cmp.Or(pod.Annotations["kubectl.kubernetes.io/default-container"], pod.Spec.Containers[0].Name)
}

// withText returns err, followed by the program's own error text.
func withText(err error, text *bytes.Buffer) error {
	if t := strings.TrimSpace(text.String()); t != "" {
		return fmt.Errorf("%w: %s", err, t)
	}
	return err
}

// executor speaks websockets, and SPDY with servers that do not.
func executor(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
	old, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	if err != nil {
		return nil, err
	}
	sockets, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(sockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// Limits for size and time of a pod's answer.
const (
	maxAnswer    = 17 << 20 // bytes; above what is read of a status
	maxComplaint = 64 << 10
	questionTime = 30 * time.Second
)

// limited is a buffer that refuses what it has no room for.
type limited struct {
	bytes.Buffer
	room int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > l.room {
		return 0, fmt.Errorf("there are more than %d bytes", l.room)
	}
	return l.Buffer.Write(b)
}

func (d *daemons) status(ctx context.Context, node string) (*inspect.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	out := limited{room: maxAnswer}
	if err := d.run(ctx, node, &out, "status", "-o", "json"); err != nil {
		return nil, err
	}
	s, err := viewer.Read(&out.Buffer)
	return s, named("node "+node, err)
}

func (d *daemons) explain(ctx context.Context, node, name string) (*inspect.Explanation, error) {
	out := limited{room: maxAnswer}
	if err := d.run(ctx, node, &out, "explain", "-o", "json", "--", name); err != nil {
		return nil, err
	}
	e, err := viewer.ReadExplanation(&out.Buffer)
	return e, named("node "+node, err)
}

// follow puts the states of a node's daemon into a feed until the stream ends, and
// returns the cause.
func (d *daemons) follow(ctx context.Context, node string, feed *viewer.Feed) error {
	r, w := io.Pipe()
	go func() {
		err := d.run(ctx, node, w, "status", "-o", "json", "--watch")
		if err == nil {
			err = fmt.Errorf("node %s: the daemon has ended the stream", node)
		}
		w.CloseWithError(err)
	}()
	err := feed.Follow(r)
	_ = r.CloseWithError(err) // ends the other one; never fails
	return err
}
