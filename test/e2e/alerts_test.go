//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/test/prometheus"
)

// alertFactor divides the durations of the rules.
const alertFactor = 20

// alerts lets Debian's Prometheus, on this machine, scrape the webhook's replicas. Each alert of the webhook fires by its symptom, and
// ends.
func (d *depletion) alerts(t *testing.T) {
	server := d.startPrometheus(t)
	// Without the policy that binds each daemon to its own Node, the webhook evicts no pod.
	d.kubectl(t, "kubectl delete validatingadmissionpolicybinding cpupoold-own-node")
	fires(t, server, "CPUPoolEvictionHalted", func(context.Context) error { return nil })
	d.kubectl(t, "kubectl apply -f deploy/rbac.yaml")
	ends(t, server, "CPUPoolEvictionHalted")

	// The API server sends more kinds of requests than the webhook reviews.
	d.kubectl(t, `kubectl patch mutatingwebhookconfiguration cpupool-webhook --type=json -p '[{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE", "UPDATE"]}]'`)
	fires(t, server, "CPUPoolWebhookFails", func(ctx context.Context) error {
		_, err := d.CoreV1().Pods("apps").Patch(ctx, "requesting", types.MergePatchType, []byte(`{"metadata":{"labels":{"test":"now"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a pod can be changed")
		}
		return nil
	})
	d.kubectl(t, "kubectl apply -f deploy/webhook/admission.yaml")
	ends(t, server, "CPUPoolWebhookFails")

	// All replicas end. The next ones are other pods, which this Prometheus does not scrape.
	d.kubectl(t, "kubectl --namespace cpupool-webhook scale deployment cpupool-webhook --replicas=0")
	fires(t, server, "CPUPoolWebhookDown", func(context.Context) error { return nil })
}

// startPrometheus has it scrape the webhook through a proxy that finds pods.
func (c *cluster) startPrometheus(t *testing.T) prometheus.Server {
	t.Helper()
	rules, err := os.ReadFile("../../deploy/monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short, err := prometheus.Shorten(string(rules), alertFactor)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.CoreV1().Pods(webhookNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.PodIP != "" && p.DeletionTimestamp == nil {
			targets = append(targets, "'"+p.Status.PodIP+":8080'")
		}
	}
	c.plane.write(t, "rules.yaml", short)
	c.plane.write(t, "prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1500ms}
rule_files: [rules.yaml]
scrape_configs:
- {job_name: cpupool-webhook, proxy_url: 'http://%s', static_configs: [{targets: [%s]}]}
`, c.proxy(t), strings.Join(targets, ", ")))
	fetch := exec.CommandContext(t.Context(), "../monitoring/promtool.sh", "prometheus")
	fetch.Stderr = os.Stderr
	program, err := fetch.Output()
	if err != nil {
		t.Fatalf("fetch Prometheus: %v", err)
	}
	server := prometheus.Server("127.0.0.1:" + freePort(t))
	c.plane.start(t, strings.TrimSpace(string(program)), "--config.file", c.plane.dir+"/prometheus.yml", "--storage.tsdb.path", c.plane.dir+"/prometheus", "--web.listen-address", string(server))
	eventually(t, "Prometheus scrapes the webhook", func(context.Context) error {
		up, err := server.Query(`up{job="cpupool-webhook"} == 1`)
		if err == nil && len(up) != len(targets) {
			err = fmt.Errorf("%d of %v are up", len(up), targets)
		}
		return err
	})
	return server
}

// proxy is an HTTP proxy that connects to pods, and returns its address.
func (c *cluster) proxy(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, // a client of a proxy gives the whole URL
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, c.machines, address)
		}},
	}
	server, ended := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}, make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close() // closes l
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve Prometheus' connections: %v", err)
		}
	})
	return l.Addr().String()
}

// fires waits until an alert does, whose symptom is caused before each look.
func fires(t *testing.T, server prometheus.Server, name string, cause func(context.Context) error) {
	t.Helper()
	eventually(t, name+" fires", func(ctx context.Context) error {
		if err := cause(ctx); err != nil {
			return err
		}
		all, err := server.Firing()
		if err != nil {
			return err
		}
		alert, found := all[name]
		if !found {
			return errors.New("it does not")
		}
		if why := alert.Speechless(); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		return nil
	})
}

// ends waits until an alert has stopped firing.
func ends(t *testing.T, server prometheus.Server, name string) {
	t.Helper()
	eventually(t, name+" ends", func(context.Context) error {
		all, err := server.Those([]string{name})
		if err == nil && all[name] {
			err = errors.New("it fires")
		}
		return err
	})
}
