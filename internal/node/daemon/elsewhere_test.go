package daemon

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// fixedLists is a runtime with fixed lists.
type fixedLists struct {
	runtime.UnimplementedRuntimeServiceServer
	pods       runtime.ListPodSandboxResponse
	containers runtime.ListContainersResponse
}

// lists returns the lists by the names of their files.
func (l *fixedLists) lists() map[string]proto.Message {
	return map[string]proto.Message{"pods": &l.pods, "containers": &l.containers}
}

func (l *fixedLists) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &l.pods, nil
}

func (l *fixedLists) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	return &l.containers, nil
}

// listsElsewhere is the directory of TestListsElsewhere.
const listsElsewhere = "LISTS_ELSEWHERE"

// TestListsElsewhere is the runtime of listedElsewhere, until its standard input ends.
func TestListsElsewhere(t *testing.T) {
	dir := os.Getenv(listsElsewhere)
	if dir == "" {
		t.Skip("only runs as a child of benchmarks")
	}
	var l fixedLists
	for name, list := range l.lists() {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = proto.Unmarshal(data, list)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtime.RegisterRuntimeServiceServer(server, &l)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	if err := server.Serve(socket); err != nil {
		t.Fatal(err)
	}
}

// TestListedElsewhere checks that the runtime of listedElsewhere returns the lists of the
// node's runtime.
func TestListedElsewhere(t *testing.T) {
	n := newNode(t)
	n.runShared(6)
	sorted := func(pods []cri.Pod, containers []cri.Container, err error) ([]cri.Pod, []cri.Container) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(pods, func(a, b cri.Pod) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(containers, func(a, b cri.Container) int { return strings.Compare(a.ID, b.ID) })
		return pods, containers
	}
	there := n.listedElsewhere(nil)
	for range 2 {
		pods, containers := sorted(n.Client.List(t.Context()))
		gotPods, gotContainers := sorted(there.List(t.Context()))
		if len(containers) != 6 || !reflect.DeepEqual(pods, gotPods) || !reflect.DeepEqual(containers, gotContainers) {
			t.Errorf("pods\n%v\ncontainers\n%v\nwant\n%v\n%v", gotPods, gotContainers, pods, containers)
		}
	}
}

// listedElsewhere returns a runtime in another process with the present lists of the node's
// runtime. Its CPU time does not count as the daemon's. It can only list. keeps selects the annotations
// of pods that the client keeps; nil: none.
func (n *node) listedElsewhere(keeps func(annotation string) bool) *cri.Client {
	n.T.Helper()
	must := func(err error) {
		n.T.Helper()
		if err != nil {
			n.T.Fatal(err)
		}
	}
	conn, err := grpc.NewClient(n.Runtime.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	must(err)
	client := runtime.NewRuntimeServiceClient(conn)
	pods, err := client.ListPodSandbox(n.T.Context(), nil)
	must(err)
	containers, err := client.ListContainers(n.T.Context(), nil)
	must(err)
	must(conn.Close())

	dir, err := os.MkdirTemp("", "cri") // as in testnode.StartRuntime
	must(err)
	n.T.Cleanup(func() { must(os.RemoveAll(dir)) })
	for name, list := range map[string]proto.Message{"pods": pods, "containers": containers} {
		data, err := proto.Marshal(list)
		must(err)
		must(os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	address := net.UnixAddr{Name: filepath.Join(dir, "r.sock"), Net: "unix"}
	socket, err := net.ListenUnix("unix", &address)
	must(err)
	inherited, err := socket.File()
	must(err)
	socket.SetUnlinkOnClose(false)
	must(socket.Close())
	child := exec.Command(os.Args[0], "-test.run=^TestListsElsewhere$")
	child.Env = append(os.Environ(), listsElsewhere+"="+dir)
	child.ExtraFiles = []*os.File{inherited}
	var output bytes.Buffer // separate, because it would split lines of benchmarks
	child.Stdout, child.Stderr = &output, &output
	until, err := child.StdinPipe()
	must(err)
	must(child.Start())
	n.T.Cleanup(func() {
		must(until.Close())
		if err := child.Wait(); err != nil {
			n.T.Errorf("runtime in another process: %v\n%s", err, &output)
		}
	})
	must(inherited.Close())

	there, err := cri.Dial("unix://"+address.Name, keeps)
	must(err)
	n.T.Cleanup(func() { must(there.Close()) })
	return there
}
