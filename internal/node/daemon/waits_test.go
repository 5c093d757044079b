package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// queue is a runtime that sends one request at a time, by the clock of a script.
type queue struct {
	*script
	made int
}

// newQueue returns a node whose strict topology policy makes containers with exclusive CPUs
// wait for a kubelet that fails.
func newQueue(t *testing.T) *queue {
	s := newScenario(t, &txtar.Archive{})
	s.YAML = strings.Replace(nodefixture.PoolsYAML, "  cpus: 4-7\n", "  cpus: 4-7\n  options: {topology-policy: restricted}\n", 1)
	s.Kubelet = nodefixture.NewKubelet()
	s.Kubelet.Fail(errors.New("the kubelet restarts"))
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.event(nriChanged{state: nri.Connected})
	s.settle()
	return &queue{script: s}
}

// create requests a container and returns how long the reply has waited, and its error.
func (q *queue) create(p cri.Pod, r cri.Resources) (time.Duration, error) {
	q.T.Helper()
	q.made++
	id := fmt.Sprint(p.UID, "-", q.made)
	a := requests.NewCreate(p, cri.Container{
		ID: id, PodID: p.ID, Name: "app", State: cri.Created, CreatedAt: q.now, CgroupsPath: p.CgroupParent + ":cri-containerd:" + id, Requested: r, Recorded: r,
	}, q.now, q.ctx.Done())
	q.event(createRequest{a})
	return answerTo(q, a.Reply())
}

// answerTo moves the clock from deadline to deadline until the answer comes. It returns the time
// on the way, and the error of the answer.
func answerTo[R any](q *queue, answer <-chan waits.Reply[R]) (time.Duration, error) {
	q.T.Helper()
	arrived := q.now
	for {
		q.settle()
		select {
		case a := <-answer:
			return q.now.Sub(arrived), a.Err
		default:
		}
		if q.now.Sub(arrived) > waits.Timeout {
			q.T.Fatalf("no answer after %v", q.now.Sub(arrived))
		}
		q.now = q.loop.schedule.next()
	}
}

// until moves the clock to at, unless it is later already.
func (q *queue) until(at time.Time) {
	q.T.Helper()
	if d := at.Sub(q.now); d > 0 {
		if err := q.wait(d.String()); err != nil {
			q.T.Fatal(err)
		}
	}
}

// TestWaitingPodsDelayOthersLittle checks that fifty pods that wait hold the queue of the
// runtime for less than a tenth of two minutes, although the kubelet repeats their
// creations every ten seconds. The replies for other containers wait for nothing else. Those
// for exclusive containers still wait for the kubelet's answer, and use its NUMA nodes.
func TestWaitingPodsDelayOthersLittle(t *testing.T) {
	q := newQueue(t)
	started := q.now
	var held time.Duration
	full := 0
	for round := range 12 {
		q.until(started.Add(time.Duration(round) * 10 * time.Second))
		for i := range 50 {
			hostile := ofPod(fmt.Sprint("w", i), "default", "guaranteed", 2, nil)
			hostile.Resources = cri.Resources{} // reserves no CPUs until its container comes
			waited, err := q.create(hostile, nodefixture.WholeCPUs(2))
			if err == nil || !strings.Contains(err.Error(), "kubelet does not report") {
				t.Fatalf("a pod that waits: %v; want that the kubelet does not report", err)
			}
			held += waited
			if waited == waits.Timeout {
				full++
			} else if !strings.Contains(err.Error(), "because earlier waits have used") {
				t.Errorf("a wait of %v: %v; want the reason", waited, err)
			}
			if i%25 != 0 {
				continue
			}
			waited, err = q.create(ofPod(fmt.Sprint("s", round, "-", i), "default", "burstable", 0, nil), cri.Resources{Shares: 512})
			if err != nil || waited != 0 {
				t.Errorf("another pod: %v after %v; want a reply at once", err, waited)
			}
		}
		if round > 1 {
			continue // the other pods wait for two of the four CPUs
		}
		name := fmt.Sprint("e", round)
		q.Kubelet.Admit("default/"+name+"/app", 1)
		q.Kubelet.Fail(nil)
		if waited, err := q.create(ofPod(name, "default", "guaranteed", 1, nil), nodefixture.WholeCPUs(1)); err != nil || waited >= waits.Timeout/10 {
			t.Errorf("an exclusive container: %v after %v; want a reply with the kubelet's answer", err, waited)
		}
		q.Kubelet.Fail(errors.New("the kubelet restarts"))
	}
	if got := q.loop.publisher.Metrics().Shortened; got != uint64(12*50-full) {
		t.Errorf("%d shortened waits; want %d", got, 12*50-full)
	}
	if held >= 2*time.Minute/10 || full != 2 {
		t.Errorf("the pods hold the queue for %v of two minutes, and %d wait for %v; want less than a tenth, and 2", held, full, waits.Timeout)
	}
}

// TestOneWaitingPod checks that the reply for a pod that waits alone waits for a second, again
// when the kubelet repeats the creation after 20 s.
func TestOneWaitingPod(t *testing.T) {
	q := newQueue(t)
	pod := ofPod("w", "default", "guaranteed", 2, nil)
	for range 5 {
		waited, err := q.create(pod, nodefixture.WholeCPUs(2))
		if err == nil || waited != waits.Timeout || strings.Contains(err.Error(), "earlier waits") {
			t.Errorf("waited for %v: %v; want %v", waited, err, waits.Timeout)
		}
		q.until(q.now.Add(20 * time.Second))
	}
}

// TestCanceledWaitCounts checks that the budget charges a wait whose request the runtime
// has canceled.
func TestCanceledWaitCounts(t *testing.T) {
	q := newQueue(t)
	for i := range 2 {
		p := ofPod(fmt.Sprint("w", i), "default", "guaranteed", 2, nil)
		canceled := make(chan struct{})
		q.event(createRequest{requests.NewCreate(p, cri.Container{
			ID: p.UID + "-c", PodID: p.ID, Name: "app", State: cri.Created, CreatedAt: q.now, CgroupsPath: p.CgroupParent + ":cri-containerd:" + p.UID, Requested: nodefixture.WholeCPUs(2),
		}, q.now, canceled)})
		q.settle()
		q.until(q.now.Add(waits.Timeout - time.Millisecond))
		close(canceled)
		q.event(systemdReloaded{})
		q.settle()
		if !q.loop.requests.IsEmpty() {
			t.Fatal("a request is open after the runtime has canceled")
		}
	}
	if waited, err := q.create(ofPod("w2", "default", "guaranteed", 2, nil), nodefixture.WholeCPUs(2)); err == nil || waited < waits.Timeout/2 || waited > waits.Timeout*2/3 {
		t.Errorf("the third wait took %v: %v; want the rest of the budget", waited, err)
	}
}

// TestStartsUseTheBudget checks that waits of start requests count. The containers are
// unknown, so each start waits for the runtime's report.
func TestStartsUseTheBudget(t *testing.T) {
	q := newQueue(t)
	var held time.Duration
	for i := range 50 {
		a := requests.NewStart(fmt.Sprint("unknown", i), q.now, q.ctx.Done())
		q.event(startRequest{a})
		waited, err := answerTo(q, a.Reply())
		if err != nil {
			t.Error(err)
		}
		if held += waited; i == 0 && waited != waits.Timeout {
			t.Errorf("the first start waited for %v; want %v", waited, waits.Timeout)
		}
	}
	if held > 2*waits.Timeout {
		t.Errorf("fifty starts waited for %v", held)
	}
}
