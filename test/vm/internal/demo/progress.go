package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// stage is a part of the demo. usual is its duration on two idle cores.
type stage struct {
	name  string
	usual time.Duration
}

// stages returns the parts of the demo. The first build of the disk compiles the kubelet. The first boot makes a snapshot.
func stages(haveDisk, haveSnapshot bool) []stage {
	disk, boot := time.Second, 7*time.Second
	if !haveDisk {
		disk = 4 * time.Minute
	}
	if !haveSnapshot {
		boot = time.Minute
	}
	return []stage{
		{"make the disk of a node: Debian with containerd and crun, and a kubelet from its source", disk},
		{"boot the node, and compile cpupoold", boot},
		{"install and start cpupoold and the service " + unit, 5 * time.Second},
		{"start static pods of all kinds", 25 * time.Second},
		{"start a pod that asks for more CPUs than are left", 4 * time.Second},
		{"systemctl daemon-reload", 2 * time.Second},
		{"delete the pod exclusive: its CPUs go to the pod that waits", 5 * time.Second},
		{"delete the pod large, and move a container to one NUMA node", 6 * time.Second},
		{"start a task on an exclusive CPU, and count it with a live audit", 15 * time.Second},
	}
}

// reportEvery is the time between two lines of a stage without other lines.
const reportEvery = 15 * time.Second

// progress prints the stages of the demo with the time since the begin, and the time left.
type progress struct {
	out     io.Writer
	began   time.Time
	ended   chan struct{}
	watcher sync.WaitGroup

	mu      sync.Mutex
	ahead   []stage // the current stage first
	since   time.Time
	printed time.Time
	done    time.Duration // usual durations of the stages before
}

// newProgress returns the progress before the first stage. The caller calls end.
func newProgress(out io.Writer, all []stage) *progress {
	now := time.Now()
	p := &progress{out: out, began: now, since: now, printed: now, ahead: append([]stage{{}}, all...), ended: make(chan struct{})}
	p.watcher.Go(p.watch)
	return p
}

// watch prints a line for each stage that takes long.
func (p *progress) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			if time.Since(p.printed) >= reportEvery {
				p.print("  still working; %s", p.left())
			}
			p.mu.Unlock()
		case <-p.ended:
			return
		}
	}
}

func (p *progress) end() {
	close(p.ended)
	p.watcher.Wait()
}

// next begins the next stage.
func (p *progress) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += p.ahead[0].usual
	p.ahead, p.since = p.ahead[1:], time.Now()
	p.print("%s; %s", p.ahead[0].name, p.left())
}

// detail prints an event of the current stage.
func (p *progress) detail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print("  "+format, args...)
}

func (p *progress) print(format string, args ...any) {
	p.printed = time.Now()
	fmt.Fprintf(p.out, "%5.0f s  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// left returns the estimate of the time left. A machine that has been slower until now stays slower.
func (p *progress) left() string {
	slower := 1.0
	if p.done >= reportEvery {
		slower = max(1, p.since.Sub(p.began).Seconds()/p.done.Seconds())
	}
	scaled := func(usual time.Duration) time.Duration { return time.Duration(float64(usual) * slower) }
	current := scaled(p.ahead[0].usual) - time.Since(p.since)
	rest := max(current, 0)
	for _, s := range p.ahead[1:] {
		rest += scaled(s.usual)
	}
	text := fmt.Sprintf("about %v left", rest.Round(time.Second))
	if current < -reportEvery {
		text += ", longer than usual"
	}
	return text
}
