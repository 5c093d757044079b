package daemon

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

var update = flag.Bool("update", false, "write the transcripts of TestScenarios again")

// TestScenarios runs the transcripts of testdata/scenario: the specification of the
// daemon by example. Each line that begins with "> " is a command; the lines below it are
// the effects of the command in their order. No goroutine of the loop runs: the test calls
// step, runs the recorded jobs one by one, and moves the clock.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scenarios: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "transcript" })
			if i < 0 {
				t.Fatalf("%s has no file transcript", file)
			}
			got := newScenario(t, archive).run(string(archive.Files[i].Data))
			if *update {
				archive.Files[i].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := gocmp.Diff(string(archive.Files[i].Data), got); diff != "" {
				t.Errorf("%s (-want +got), go test -run TestScenarios -update writes it again:\n%s", file, diff)
			}
		})
	}
}

// timestamp matches the times in problems.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z`)

// script is a node with a loop that has no goroutine.
type script struct {
	*node
	flavor     testnode.Flavor
	nri        bool
	ctx        context.Context //nolint:containedctx // ends with the test
	out        strings.Builder
	loop       *Loop // nil while no daemon runs
	stop       func()
	began, now time.Time
	commanded  time.Time // when the command began
	jobs       []recordedJob

	names    map[string]string // pod or pod/container by id
	ids      map[string]string // id by name
	problems map[string]bool   // that were printed
	cgroups  map[string]string // cgroups of no container, by pod/name
	plugin   hooks             // what the runtime calls with NRI
	passes   map[telemetry.Result]uint64
	live     *scriptLive // nil without a live audit
	slowDisk bool        // the disk does not answer, and runDir is not in memory

	// inSystem is true if the asked pods are in the kubelet's system partition.
	inSystem bool
	// noTotal is true if the runtime does not report the total of the asked pods.
	noTotal bool
	// claims are the references of the asked containers.
	claims cri.ClaimRefs
	// onHost changes the host of the daemon. It is nil in transcripts.
	onHost func(*hostenv.Host)
}

func newScenario(t *testing.T, archive *txtar.Archive) *script {
	t.Helper()
	spec := nodefixture.Spec{}
	var yaml string
	var nri bool // the daemon has a socket of NRI, and commands take the place of the connection
	for _, f := range archive.Files {
		switch f.Name {
		case "config.yaml":
			yaml = string(f.Data)
		case "node":
			for word := range strings.FieldsSeq(string(f.Data)) {
				switch word {
				case "partitions":
					spec.Kernel = nodefixture.KernelLike(7, 0)
				case "nri":
					nri = true
				case "cgroupfs":
					spec.Runtime.Driver = cri.Cgroupfs
				case "crun":
					spec.Runtime.Crun = true
				case "cri-o":
					spec.Runtime.Flavor = testnode.CRIO
				default:
					t.Fatalf("node: unknown word %q", word)
				}
			}
		}
	}
	s := &script{node: newNodeOf(t, spec), flavor: spec.Runtime.Flavor, nri: nri, ctx: t.Context(), names: make(map[string]string), ids: make(map[string]string), cgroups: make(map[string]string), stop: func() {}}
	s.now = time.Now().Truncate(time.Second) // problems show whole seconds
	s.began = s.now
	if yaml != "" {
		s.YAML = yaml
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// run executes the commands of a transcript, and returns the transcript with their effects.
func (s *script) run(transcript string) string {
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "#") || line == "" {
			fmt.Fprintln(&s.out, line)
			continue
		}
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue // an effect
		}
		fmt.Fprintln(&s.out, line)
		s.commanded = s.now
		if err := s.do(strings.Fields(command)); err != nil {
			s.printf("error: %v", err)
		}
		s.effects()
		s.wrong()
		s.CheckAssigned()
		s.CheckKernel()
	}
	return s.out.String()
}

// printf prints an effect, with names instead of ids.
func (s *script) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for id, name := range s.names {
		if path := s.Runtime.Cgroup(id); path != "" {
			text = strings.ReplaceAll(text, path, name)
		}
		text = strings.ReplaceAll(text, id, name)
	}
	text = strings.ReplaceAll(text, s.Dir, "DIR")
	text = timestamp.ReplaceAllStringFunc(text, func(at string) string {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return at
		}
		return "T+" + t.Sub(s.began).Round(time.Second).String()
	})
	if waited := s.now.Sub(s.commanded); waited > 0 {
		text = fmt.Sprintf("after %v: %s", waited.Round(time.Millisecond), text)
	}
	fmt.Fprintln(&s.out, "  "+text)
}

// do executes one command.
func (s *script) do(words []string) error {
	args := make(map[string]string)
	var plain []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	plain = append(plain, "", "", "")
	if done, err := s.claimCommand(words[0], plain[0], args); done {
		return err
	}
	switch words[0] {
	case "start":
		return s.start()
	case "kill":
		s.stop()
		s.loop = nil
	case "lose-journal":
		return os.Remove(filepath.Join(s.Dir, "journal.json"))
	case "restore":
		return s.restore()
	case "disk":
		s.slowDisk, s.loop.RecentDir = plain[0] == "slow", s.RunDir
		if s.slowDisk {
			s.loop.RecentDir = ""
		}
	case "pod":
		return s.pod(plain[0], args)
	case "ask":
		r, err := resources(args)
		if err != nil {
			return err
		}
		r.CPUs = args["elsewhere"] // another plugin has chosen them
		s.inSystem, s.noTotal = args["system"] == "yes", args["total"] == "unknown"
		s.claims = claimRefs(args)
		s.ask(slices.DeleteFunc(plain, func(name string) bool { return name == "" }), r)
	case "run":
		if err := s.create(plain[0], args); err != nil {
			return err
		}
		return s.beginIn(plain[0], args["cgroup"])
	case "cgroup":
		return s.cgroup(plain[0], args["without"])
	case "write-cgroup":
		return s.Tree.Write(s.cgroups[plain[0]]+"/"+cgroup.FileCPUs, plain[1])
	case "auxiliary":
		for _, g := range s.loop.last.Auxiliary {
			s.printf("%s: %s of %q: CPUs %s, exclusive %t, mixed %q", g.Cgroup, g.Kind, g.Pod, g.CPUs, g.Exclusive, g.Mixed)
		}
	case "exit":
		id := s.ids[plain[0]]
		if err := s.Runtime.StopContainer(id); err != nil {
			return err
		}
		s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: s.PodOf(id), Kind: cri.ContainerStopped, At: s.now}})
	case "remove":
		return s.remove(plain[0])
	case "resize":
		return s.resize(plain[0], args)
	case "total": // the kubelet resizes a pod with pod-level resources
		r, err := resources(args)
		if err == nil {
			err = s.Runtime.ResizePod(s.ids[plain[0]], r)
		}
		if err == nil && s.nri && s.flavor != testnode.CRIO {
			s.plugin.ResizePod(s.ids[plain[0]], r)
		}
		return err
	case "update": // the kubelet updates a container, and no NRI plugin knows it
		r, err := resources(args)
		if err != nil {
			return err
		}
		return s.Runtime.Resize(s.ids[plain[0]], r)
	case "write":
		return s.Tree.Write(s.Runtime.Cgroup(s.ids[plain[0]])+"/"+plain[1], plain[2])
	case "insist": // a process writes the value after each write of others; without a value it ends
		return s.Tree.Insist(filepath.Join(s.Runtime.Cgroup(s.ids[plain[0]]), plain[1]), plain[2])
	case "system":
		return s.systemPartition(args["cpus"])
	case "flood":
		return s.flood(plain[0], plain[1])
	case "overflow":
		s.Tree.LoseNotices(func() {})
	case "lose-cgroup": // the runtime does not notice the end of the container
		return s.Tree.Remove(s.Runtime.Cgroup(s.ids[plain[0]]))
	case "limit":
		return s.limit(plain[0])
	case "partition":
		return s.partition(plain[0], args)
	case "offline", "online":
		return s.setOnline(words[0] == "online", plain[0])
	case "runtime":
		var err error
		if plain[0] == "away" {
			err = grpcstatus.Error(codes.Unavailable, "away")
		}
		for _, method := range []string{"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "UpdateContainerResources"} {
			s.Runtime.Fail(method, err)
		}
	case "wait":
		return s.wait(plain[0])
	case "passes": // the results of the passes since the last such command
		now := s.loop.publisher.Metrics().Passes
		for _, result := range slices.Sorted(maps.Keys(now)) {
			if now[result] > s.passes[result] {
				s.printf("some passes: %s", result)
			}
		}
		s.passes = now
	case "cpus":
		for _, name := range words[1:] {
			st := s.StateAt(cgroup.Path(cmp.Or(s.cgroups[name], s.Runtime.Cgroup(s.ids[name]))))
			partition := ""
			if !st.Partition.Is(cgroup.MemberPartition) {
				partition = fmt.Sprintf(", partition %v", st.Partition)
			}
			s.printf("%s runs on CPUs %s%s", name, st.Effective, partition)
		}
	default:
		s.T.Fatalf("unknown command %q", words)
	}
	return nil
}

// start begins a daemon.
func (s *script) start() error {
	o := s.options()
	o.Clock = func() time.Time { return s.now }
	h := s.Host()
	if s.nri {
		h.NRISocket = "nri.sock"
	}
	if s.flavor == testnode.CRIO {
		h.CRIO = func() managers.CRIO { return managers.CRIO{} }
	}
	if s.onHost != nil {
		s.onHost(&h)
	}
	l, err := newLoop(h, o)
	if err != nil {
		return err
	}
	l.memory = memrelease.With(func() {}, func() memrelease.Usage {
		return memrelease.Usage{Unused: memrelease.MinUnused, Heap: memrelease.MinHeap}
	})
	l.workers = actor.WorkerSets[event]{Queries: recorder{"query", s}, Updates: recorder{"update", s}, Disk: recorder{"disk", s}}
	watcher, err := l.notices.Tree.Open(l.Cgroups, l.now)
	if err != nil {
		return err
	}
	s.loop, s.problems, s.plugin = l, make(map[string]bool), hooks{l.box.Post, l.now}
	s.jobs = nil
	s.stop = func() { _ = watcher.Close(); s.stop = func() {} }
	s.startLive(l)
	l.box.Post(treeWatched{watcher: watcher})
	l.askFormula()
	l.begin()
	s.settle()
	return nil
}

// event hands an event to the loop.
func (s *script) event(e event) {
	if s.loop != nil {
		s.loop.box.Post(e)
	}
}

// settle calls step and runs jobs until nothing is left to do at this time.
func (s *script) settle() {
	if s.loop == nil {
		return
	}
	for range 1000 {
		s.Tree.AwaitReaders()
		select {
		case <-s.loop.notices.Tree.Wake():
			s.loop.takeNotices()
		default:
		}
		events := s.loop.box.Take()
		s.loop.step(s.now, events)
		s.awaitLive()
		s.written()
		if i := slices.IndexFunc(s.jobs, func(j recordedJob) bool { return j.set != "disk" || !s.slowDisk }); i >= 0 {
			j := s.jobs[i]
			s.jobs = slices.Delete(s.jobs, i, i+1)
			e := j.run(s.ctx)
			s.printf("%s", j.label(e))
			if e != nil {
				s.event(e)
			}
			s.written()
			continue
		}
		s.Tree.AwaitReaders()
		if next := s.loop.schedule.next(); len(events) == 0 && len(s.loop.notices.Tree.Wake()) == 0 && (next.IsZero() || next.After(s.now)) {
			return
		}
	}
	s.T.Fatal("the loop does not come to rest")
}

// written prints the writes since the last call.
func (s *script) written() {
	for _, w := range s.Tree.Writes() {
		s.printf("write %s = %s", w.Name, strings.TrimSpace(w.Value))
	}
	s.Tree.Forget()
}

// effects prints the effects of a command.
func (s *script) effects() {
	s.settle()
	if s.loop == nil {
		return
	}
	now := make(map[string]bool)
	if shown := s.loop.publisher.Latest(); shown != nil {
		for _, p := range shown.Problems {
			text := fmt.Sprintf("problem %s: %s", p.Code, p.Text)
			if now[text] = true; !s.problems[text] {
				s.printf("%s", text)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(s.problems)) {
		if !now[text] {
			code, _, _ := strings.Cut(text, ":")
			s.printf("%s is over", code)
		}
	}
	s.problems = now
}

// wait moves the clock, and stops at each deadline on the way.
func (s *script) wait(duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	for end := s.now.Add(d); ; {
		next := s.loop.schedule.next()
		if next.IsZero() || next.After(end) {
			s.now = end
			return nil
		}
		s.now = next
		s.settle()
	}
}

// resources returns cpus=N (whole CPUs with a limit), cpus=Nm (thousandths) or shares=N.
func resources(args map[string]string) (cri.Resources, error) {
	if n, err := strconv.Atoi(args["cpus"]); err == nil {
		return nodefixture.WholeCPUs(n), nil
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(args["cpus"], "m")); err == nil {
		return nodefixture.MilliCPUs(n), nil
	}
	n, err := strconv.ParseUint(args["shares"], 10, 64)
	return cri.Resources{Shares: n}, err
}

// create makes a container of a runtime without NRI.
func (s *script) create(name string, args map[string]string) error {
	pod, container, _ := strings.Cut(name, "/")
	r, err := resources(args)
	if err != nil {
		return fmt.Errorf("resources of %s: %w", name, err)
	}
	var env []string
	if value := args[cri.SharedCPUsVariable]; value != "" {
		env = []string{cri.SharedCPUsVariable + "=" + value}
	}
	id, err := s.Runtime.CreateContainer(s.ids[pod], testnode.ContainerSpec{Name: container, Attempt: s.NextAttempt(s.ids[pod], container), Resources: r, Env: env})
	if err != nil {
		return err
	}
	s.names[id], s.ids[name] = name, id
	s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: s.ids[pod], Kind: cri.ContainerCreated, At: s.now}})
	return nil
}

// ask is the question of an NRI runtime about containers that it is about to create, all
// of them before the first answer.
func (s *script) ask(names []string, r cri.Resources) {
	answers := make([]<-chan waits.Reply[nri.Reply], len(names))
	s.event(nriChanged{state: nri.Connected})
	for i, name := range names {
		answers[i] = s.question(name, r, s.ctx.Done())
	}
	s.settle()
	for i, answer := range answers {
		for {
			select {
			case a := <-answer:
				s.reply(names[i], a)
			default:
				if s.now.Sub(s.commanded) > waits.Timeout {
					s.printf("no answer about %s", names[i])
					break
				}
				s.now = s.loop.schedule.next()
				s.settle()
				continue
			}
			break
		}
	}
}

// question posts the question about one container. It returns the channel of the answer.
func (s *script) question(name string, r cri.Resources, canceled <-chan struct{}) <-chan waits.Reply[nri.Reply] {
	pod, container, _ := strings.Cut(name, "/")
	p := ofPod(pod, "default", "guaranteed", int(r.Shares/1024), nil)
	p.CreatedAt = s.now
	if s.noTotal {
		p.Resources = cri.Resources{}
	}
	if s.inSystem {
		p.CgroupParent = strings.Replace(p.CgroupParent, "kubepods-", "kubepods-system-", 1)
	}
	id := "id-of-" + pod + "-" + container
	s.names[id], s.names[p.ID], s.ids[name] = name, pod+"/pause", id
	q := requests.NewCreate(p, cri.Container{
		ID: id, PodID: p.ID, Name: container, State: cri.Created, CreatedAt: s.now, CgroupsPath: p.CgroupParent + ":cri-containerd:" + id, Requested: r, Recorded: r, Claims: s.claims,
	}, s.now, canceled)
	s.event(createRequest{q})
	return q.Reply()
}

// reply prints an answer to the runtime.
func (s *script) reply(name string, a waits.Reply[nri.Reply]) {
	if a.Err != nil {
		s.printf("reply about %s: refused: %v", name, a.Err)
		return
	}
	quota := ""
	if a.Value.Adjustment.Unlimited {
		quota = ", no quota"
	}
	s.printf("reply about %s: CPUs %s%s", name, a.Value.Adjustment.CPUs, quota)
	for _, u := range a.Value.Updates {
		s.printf("reply: update %s to CPUs %s", u.Container, u.CPUs)
	}
}

// remove ends a pod with its containers.
func (s *script) remove(pod string) error {
	id := s.ids[pod]
	if err := errors.Join(s.Runtime.StopPod(id), s.Runtime.RemovePod(id)); err != nil {
		return err
	}
	for name, c := range s.ids {
		if strings.HasPrefix(name, pod+"/") {
			s.event(runtimeEvent{cri.Event{ContainerID: c, PodID: id, Kind: cri.ContainerDeleted, At: s.now}})
		}
	}
	s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: id, Kind: cri.ContainerDeleted, At: s.now}})
	return nil
}

// resize is an in-place resize: the kubelet asks the runtime, which asks the daemon.
func (s *script) resize(name string, args map[string]string) error {
	r, err := resources(args)
	if err != nil {
		return err
	}
	id, q := s.ids[name], waits.Ask[cri.Resources](s.ctx.Done())
	s.event(updateRequest{id, r, q})
	s.settle()
	u := <-q.Reply()
	if u.Err == nil {
		s.printf("reply: resized")
		return s.Runtime.Resize(id, r)
	}
	s.printf("reply: refused: %v", u.Err)
	return nil
}
