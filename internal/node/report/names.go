package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// AddStatus adds the names in the state of a daemon.
func (r *Redactor) AddStatus(s *inspect.Status) {
	r.Add(Host, s.Node)
	for i := range s.Containers {
		c := &s.Containers[i]
		if c.Unit {
			r.AddUnit(c.Name)
			continue
		}
		r.addCgroup(c.Cgroup)
		r.addPod(c.Namespace + "/" + c.Pod)
		r.Add(Container, c.Name)
	}
	for i := range s.Problems {
		p := &s.Problems[i]
		r.addPod(p.Pod)
		r.Add(Container, p.Container)
		r.AddUnit(p.Unit)
		r.addClaim(p.Claim)
		r.AddText(p.Text)
	}
	for i := range s.Claims {
		c := &s.Claims[i]
		r.addClaim(c.Full())
		r.addPod(c.Pod)
		for _, name := range c.Containers {
			r.Add(Container, name)
		}
		for _, part := range c.Parts {
			r.Add(Request, part.Request)
		}
	}
	for i := range s.CPUs {
		r.addOwner(s.CPUs[i].Owner)
	}
	for _, f := range s.Faults {
		r.addCgroup(f.Cgroup)
	}
	for _, w := range s.Waits {
		r.addCgroup(w.Cgroup)
	}
	r.AddEvents(s.LastWrites)
}

// AddSubject adds the names in an explanation, which is newer than the status.
func (r *Redactor) AddSubject(s *inspect.Subject) {
	r.AddStatus(&inspect.Status{Containers: []inspect.Container{s.Container}, Claims: s.Claims, Problems: s.Problems, Faults: s.Faults, Waits: s.Waits})
	r.AddEvents(s.Events)
	if s.Kernel != nil {
		r.addCgroup(s.Kernel.Cgroup)
	}
}

// AddEvents adds the names in events.
func (r *Redactor) AddEvents(events []history.Event) {
	for i := range events {
		e := &events[i]
		r.addPod(e.Pod)
		r.Add(Container, e.Container)
		r.AddUnit(e.Unit)
		r.addClaim(e.Claim)
		r.addCgroup(e.Cgroup)
		r.AddText(e.Cause)
	}
}

// addClaim adds namespace/name of a ResourceClaim.
func (r *Redactor) addClaim(full string) {
	if namespace, name, both := strings.Cut(full, "/"); both {
		r.Add(Namespace, namespace)
		r.Add(Claim, name)
	}
}

// addPod adds namespace/name.
func (r *Redactor) addPod(full string) {
	namespace, name, both := strings.Cut(full, "/")
	if !both {
		r.Add(Pod, full)
		return
	}
	r.Add(Namespace, namespace)
	r.Add(Pod, name)
}

// addOwner adds a unit, namespace/pod, namespace/pod/container, or a claim.
func (r *Redactor) addOwner(owner string) {
	if claim, is := strings.CutPrefix(owner, claimOwner); is {
		r.addClaim(claim)
		return
	}
	parts := strings.Split(owner, "/")
	if len(parts) == 1 {
		r.AddUnit(owner)
		return
	}
	r.addPod(parts[0] + "/" + parts[1])
	if len(parts) > 2 {
		r.Add(Container, parts[2])
	}
}

// addCgroup adds the names of units in the path of a cgroup, without common units.
func (r *Redactor) addCgroup(path string) {
	for part := range strings.SplitSeq(path, "/") {
		i := strings.LastIndexByte(part, '.')
		if i <= 0 || r.commonUnits.MatchString(part) {
			continue
		}
		switch part[i:] {
		case ".service", ".slice", ".scope", ".socket", ".mount", ".swap":
			if r.words[part] == "" {
				r.counts[Unit]++
				word := string(Unit) + "-" + strconv.Itoa(r.counts[Unit])
				r.replace(part, word+part[i:])
				if template, _, is := strings.Cut(part[:i], "@"); is && template != "" && r.words[template] == "" {
					r.replace(template, word)
				}
			}
		}
	}
}

// commonUnits matches units that many hosts have. The whole name must match: a longer name can
// identify a host.
func commonUnits() *regexp.Regexp {
	return regexp.MustCompile(`^(` + strings.Join([]string{
		`(kubelet-)?kubepods(-(besteffort|burstable))?(-pod[0-9a-f_]+)?\.slice`, `kubelet\.slice`,
		`(cri-containerd|crio|crio-conmon|docker|libpod|libpod-conmon)-[0-9a-f]{8,}\.scope`,
		`(kubelet|containerd|crio|docker|podman|cpupoold|dbus|dbus-broker)\.(service|socket|slice)`,
		`(system|user|machine|-)\.slice`, `init\.scope`, `-\.mount`,
		`user-[0-9]+\.slice`, `user(-runtime-dir)?@[0-9]+\.service`, `session-[0-9a-z]+\.scope`,
		`system-(getty|serial\\x2dgetty|modprobe|systemd\\x2d[a-z\\0-9]+)\.slice`, `(serial-)?getty@tty[A-Z]*[0-9]+\.service`,
		`systemd-(journald|udevd|logind|networkd|resolved|timesyncd|oomd|userdbd|homed|machined|hostnamed|timedated|localed|coredump|initctl|importd|portabled)(-[a-z-]+)?\.(service|socket)`,
		`(dev-(hugepages|mqueue)|sys-(kernel-(debug|tracing|config)|fs-fuse-connections|fs-bpf)|run-user-[0-9]+|proc-sys-fs-binfmt_misc)\.mount`,
	}, "|") + `)$`)
}

// logAttributes matches attributes with names: key=value, key="value" and "key":"value".
func logAttributes() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[\s{,])"?(pod|container|namespace|unit|claim|node|image|cgroup)"?[=:]("(?:[^"\\]|\\.)*"|[^\s",}]+)`)
}

// AddLog adds the names in log records.
func (r *Redactor) AddLog(text string) {
	add := map[string]func(string){
		"pod": r.addPod, "claim": r.addClaim, "unit": r.AddUnit, "cgroup": r.addCgroup,
		"namespace": r.adder(Namespace), "node": r.adder(Host), "image": r.adder(Image),
		"container": func(name string) {
			if strings.Contains(name, "/") {
				r.addOwner(name)
			} else {
				r.Add(Container, name)
			}
		},
	}
	for _, m := range logAttributes().FindAllStringSubmatch(text, -1) {
		value := m[2]
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		add[m[1]](value)
	}
	r.AddText(text)
}

func (r *Redactor) adder(k Kind) func(string) { return func(name string) { r.Add(k, name) } }

// textPattern matches names in lines with a hint: a fixed text is found much faster.
type textPattern struct {
	add   func(string)
	hints []string
	name  *regexp.Regexp
}

// textPatterns match messages of cpupoold and of the Go resolver.
func (r *Redactor) textPatterns() []textPattern {
	return []textPattern{
		{r.addPod, []string{"pod "}, regexp.MustCompile(`\bpod ([a-z0-9.-]+/[a-z0-9.-]+)`)},
		{r.adder(Container), []string{", container "}, regexp.MustCompile(`\bpod [a-z0-9.-]+/[a-z0-9.-]+, container ([a-z0-9.-]+)`)},
		{r.addClaim, []string{"claim "}, regexp.MustCompile(`\bclaim ([a-z0-9.-]+/[a-z0-9.-]+)`)},
		{r.adder(Profile), []string{"/active_profile: "}, regexp.MustCompile(`/active_profile: ([A-Za-z0-9_.@-]+)`)},
		{r.adder(Drop), []string{".d/"}, regexp.MustCompile(`\.d/([A-Za-z0-9_.@-]+)`)},
		{r.adder(Section), []string{"workloads.", "runtimes."}, regexp.MustCompile(`\b(?:workloads|runtimes)\.([A-Za-z0-9_-]+)`)},
		// The unit can have ended, so that no tree of cgroups has it.
		{r.addCgroup, []string{", cgroup "}, regexp.MustCompile(`, cgroup [\\"]*system\.slice/([A-Za-z0-9@_.\\-]+\.service)`)},
		{r.adder(Host), []string{"http://", "https://", "lookup "}, regexp.MustCompile(`(?:https?://|\blookup )([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)`)},
	}
}

// AddText adds the names in messages of cpupoold, such as the findings of check.
func (r *Redactor) AddText(text string) {
	patterns := r.textPatterns()
	for line := range strings.Lines(text) {
		for _, p := range patterns {
			if !slices.ContainsFunc(p.hints, func(hint string) bool { return strings.Contains(line, hint) }) {
				continue
			}
			for _, m := range p.name.FindAllStringSubmatch(line, -1) {
				p.add(m[1])
			}
		}
	}
}
