//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// A controlPlane holds the processes of a control plane on this machine, because emulation is slow. The parts of the
// node must be emulated.
type controlPlane struct {
	programs string // directory
	dir      string // with keys, kubeconfigs, and all that the processes write
	address  string // of the API server
	image    string // of the release that commands of the documents install
	gates    string // feature gates, as NAME=true
	running  map[string]*process
	test     *testing.T // the programs end with it
}

// startControlPlane starts the control plane of a cluster of these machines.
func startControlPlane(t *testing.T, machines []*machine, gates string) *controlPlane {
	t.Helper()
	p := &controlPlane{programs: programs(t), dir: t.TempDir(), address: "127.0.0.1:" + freePort(t), gates: gates, running: make(map[string]*process), test: t}
	p.copyKeys(t)
	egress, err := os.ReadFile("testdata/egress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "egress.yaml", strings.ReplaceAll(string(egress), "@SOCKET@", serveTunnel(t, machines)))
	peer, client := "unix://"+filepath.Join(p.dir, "peer"), p.etcd()
	p.start(t, "etcd", "--data-dir", filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-peer-urls", peer, "--listen-client-urls", client, "--advertise-client-urls", client)
	p.startAPIServer(t)
	p.startController(t)
	p.startScheduler(t)
	return p
}

// etcd returns the address of etcd for the API server.
func (p *controlPlane) etcd() string { return "unix://" + filepath.Join(p.dir, "client") }

// startAPIServer starts the API server, and waits until it is ready.
func (p *controlPlane) startAPIServer(t *testing.T) {
	t.Helper()
	pki := filepath.Join(p.dir, "pki")
	_, port, _ := strings.Cut(p.address, ":")
	p.start(t, "kube-apiserver", "--feature-gates", p.gates, "--etcd-servers", p.etcd(), "--bind-address", "127.0.0.1", "--secure-port", port,
		"--advertise-address", "10.0.2.15", "--endpoint-reconciler-type", "none",
		"--client-ca-file", filepath.Join(pki, "ca.crt"),
		"--tls-cert-file", filepath.Join(pki, "apiserver.crt"), "--tls-private-key-file", filepath.Join(pki, "apiserver.key"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", filepath.Join(pki, "sa.pub"), "--service-account-signing-key-file", filepath.Join(pki, "sa.key"),
		"--service-cluster-ip-range", "10.96.0.0/24", "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--kubelet-preferred-address-types", "InternalIP", // this machine does not know the node's name
		"--kubelet-client-certificate", filepath.Join(pki, "apiserver-kubelet-client.crt"),
		"--kubelet-client-key", filepath.Join(pki, "apiserver-kubelet-client.key"),
		// The aggregator proves to other API servers which user asks.
		"--requestheader-client-ca-file", filepath.Join(pki, "front-proxy-ca.crt"), "--requestheader-allowed-names", "front-proxy-client",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", filepath.Join(pki, "front-proxy-client.crt"), "--proxy-client-key-file", filepath.Join(pki, "front-proxy-client.key"),
		"--allow-privileged",
		"--enable-aggregator-routing", // to the endpoints of services: there is no kube-proxy
		"--egress-selector-config-file", filepath.Join(p.dir, "egress.yaml"))
	c := p.client(t)
	eventually(t, "the API server is ready", func(ctx context.Context) error { return c.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() })
}

func (p *controlPlane) startController(t *testing.T) {
	t.Helper()
	pki := filepath.Join(p.dir, "pki")
	p.start(t, "kube-controller-manager", "--feature-gates", p.gates, "--kubeconfig", filepath.Join(p.dir, "controller-manager.conf"), "--leader-elect=false",
		"--secure-port", "0", "--horizontal-pod-autoscaler-sync-period", "5s", "--use-service-account-credentials", "--root-ca-file", filepath.Join(pki, "ca.crt"),
		"--service-account-private-key-file", filepath.Join(pki, "sa.key"))
}

func (p *controlPlane) startScheduler(t *testing.T) {
	t.Helper()
	p.start(t, "kube-scheduler", "--feature-gates", p.gates, "--kubeconfig", filepath.Join(p.dir, "scheduler.conf"), "--leader-elect=false", "--secure-port", "0")
}

// regate restarts the control plane with other feature gates.
func (p *controlPlane) regate(t *testing.T, gates string) {
	t.Helper()
	p.gates = gates
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver"} {
		p.stop(name)
	}
	p.startAPIServer(t)
	p.startController(t)
	p.startScheduler(t)
}

// copyKeys copies keys and kubeconfigs, because a test of another version of this repository may replace them while the processes read
// them.
func (p *controlPlane) copyKeys(t *testing.T) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(p.dir, "pki"), os.DirFS(filepath.Join(p.programs, "pki"))); err != nil {
		t.Fatal(err)
	}
	const onNodes = "10.96.0.1:443"
	for name, address := range map[string]string{
		"super-admin.conf": p.address, "controller-manager.conf": p.address, "scheduler.conf": p.address, "kubelet.conf": onNodes, "worker.conf": onNodes,
	} {
		text, err := os.ReadFile(filepath.Join(p.programs, name))
		if err != nil {
			t.Fatal(err)
		}
		p.write(t, name, strings.ReplaceAll(string(text), onNodes, address))
	}
}

// client is one of the cluster's administrator.
func (p *controlPlane) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "super-admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // no limit
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// command is a line for a shell that finds kubectl and the cluster.
func (p *controlPlane) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-euc", line)
	cmd.Dir = p.dir
	cmd.WaitDelay = 10 * time.Second // for children of the shell, which may outlive it
	cmd.Env = append(os.Environ(), "PATH="+p.programs+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(p.dir, "super-admin.conf"), "NODE="+nodeName, "IMAGE="+p.image)
	return cmd
}

// programs returns the directory of the control plane's programs, keys and kubeconfigs.
func programs(t *testing.T) string {
	t.Helper()
	return partsTree(t, "cluster")
}

// partsTree returns the directory of a tree of test/vm/parts, which is built if need be.
func partsTree(t *testing.T, name string) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), "../vm/parts/build.sh", name)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatalf("build the tree %s: %v", name, err)
	}
	cache := os.Getenv("CPUPOOLD_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "cpupoold")
	}
	return filepath.Join(cache, "vm", "parts", "tree-"+name)
}

func (p *controlPlane) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A process is a program that runs next to the test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func (r *process) stop() {
	_ = r.cmd.Process.Kill() // may have ended
	<-r.done
}

// stop kills a program, and waits for its end.
func (p *controlPlane) stop(name string) { p.running[name].stop() }

// start runs a program until stop, or the end of the control plane's test, of which t may be a part. It is a program of the control plane, or given with its path. A failed test prints its
// last output.
func (p *controlPlane) start(t *testing.T, name string, args ...string) {
	t.Helper()
	program := name
	if !filepath.IsAbs(name) {
		program = filepath.Join(p.programs, name)
	}
	log, err := os.OpenFile(filepath.Join(p.dir, filepath.Base(name)+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := &process{exec.Command(program, args...), make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	again := p.running[name] != nil
	p.running[name] = r
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // its log has the reason
	}()
	p.test.Cleanup(func() {
		r.stop()
		if p.test.Failed() && !again {
			text, err := os.ReadFile(log.Name())
			p.test.Logf("log of %s (%v):\n%s", name, err, text[max(0, len(text)-4000):])
		}
		log.Close()
	})
}
