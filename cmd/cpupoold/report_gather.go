package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/report"
	"github.com/cpupoold/cpupoold/internal/version"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// machine holds the sources of a report.
type machine struct {
	root     fs.FS // /
	hostname func() (string, error)
	check    func(context.Context, preflight.Configuration) []preflight.Finding
	systemd  func(context.Context) (int, error)
	runtime  func(ctx context.Context, endpoint string) (string, error)
	journal  func(context.Context) ([]byte, error)
}

func thisHost() machine {
	local := preflight.Local()
	return machine{
		root: local.Root, hostname: os.Hostname, systemd: local.SystemdVersion, runtime: runtimeVersion, journal: journal,
		check: func(ctx context.Context, c preflight.Configuration) []preflight.Finding {
			return preflight.Run(ctx, local, c)
		},
	}
}

// reported is a report in the making.
type reported struct {
	at      time.Time
	host    string
	files   []report.File
	size    int // of files, in bytes
	missing []string

	// names add the names in the files to a redactor, in the order of the files. Only redact
	// calls them: the search in a long log takes more CPU time than the rest of the report.
	names []func(*report.Redactor)
	// unredactable is a file with unknown names in it, or empty.
	unredactable string
}

// spare is what of an archive is left for MISSING.txt, and for words that are longer than
// the names which they replace.
const spare = 4 << 20

// queryTimeout is the timeout of each query of a report.
const queryTimeout = 15 * time.Second

// within calls ask with the time of one question.
func within[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return ask(ctx)
}

// gatherReport gathers the files of a report. A missing source is no error.
func (a *app) gatherReport(ctx context.Context, m machine) *reported {
	r := &reported{at: time.Now().UTC()}
	host, err := m.hostname()
	if r.host = host; err != nil {
		r.lack("the host's name", err)
	}
	r.learn(func(n *report.Redactor) {
		short, _, _ := strings.Cut(host, ".")
		n.Add(report.Host, short)
		n.Add(report.Host, host)
	})
	c, configErr := config.Load(a.configPath(), a.overrides, nil)
	r.config(a.configPath(), c, configErr)
	r.gather(
		ctx,
		part{"status.json, events.json and explanations.json", func(ctx context.Context, r *reported) { r.daemon(ctx, a.daemon()) }},
		part{"versions.json", func(ctx context.Context, r *reported) { r.versions(ctx, m, c) }},
		part{"topology.json", func(_ context.Context, r *reported) { r.topology(m.root) }},
		part{"cgroups.jsonl", func(ctx context.Context, r *reported) { r.cgroups(ctx, m.root) }},
		part{"check.json", func(ctx context.Context, r *reported) {
			r.check(ctx, m, preflight.Configuration{File: a.configPath(), Config: c, Err: configErr})
		}},
		part{"journal.txt", func(ctx context.Context, r *reported) { r.journal(ctx, m.journal) }},
	)
	return r
}

// learn notes the names of a file for a report without names.
func (r *reported) learn(add func(*report.Redactor)) { r.names = append(r.names, add) }

func (r *reported) lack(what string, err error) {
	r.missing = append(r.missing, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
}

func (r *reported) add(name string, data []byte) {
	if len(data) > report.MaxFile {
		r.lack(name, fmt.Errorf("it has %d bytes, and at most %d are taken", len(data), report.MaxFile))
		return
	}
	if r.size+len(data) > report.MaxTotal-spare {
		r.lackSize(name, len(data))
		return
	}
	r.size += len(data)
	r.files = append(r.files, report.File{Name: name, Data: data})
}

// lackSize notes a file that does not fit into the rest of the archive.
func (r *reported) lackSize(name string, size int) {
	r.lack(name, fmt.Errorf("its %d bytes are too many: the other files have %d bytes, and the limit is %d", size, r.size, report.MaxTotal-spare))
}

func (r *reported) json(name string, v any) {
	var text bytes.Buffer
	if err := document.Write(&text, v); err != nil {
		r.lack(name, err)
		return
	}
	r.add(name, text.Bytes())
}

// config adds the configuration file, and the names in the parsed configuration.
func (r *reported) config(file string, c *config.Config, err error) {
	const name = "config.yaml"
	if file == "" {
		r.missing = append(r.missing, name+": there is no configuration file; the defaults are in force")
		return
	}
	data, readErr := os.ReadFile(file)
	if readErr != nil {
		r.lack(name, readErr)
		return
	}
	r.add(name, data)
	if err != nil || c == nil {
		r.unredactable = name
		return
	}
	r.learn(func(n *report.Redactor) { addConfig(n, c) })
}

func addConfig(n *report.Redactor, c *config.Config) {
	var namespaces []string
	for _, p := range c.Pools.Partitions {
		namespaces = append(namespaces, p.Namespaces...)
	}
	for _, ns := range slices.Concat(namespaces, c.Pools.Guaranteed.Mixed.Namespaces, c.StaticPods.Namespaces) {
		if ns != pools.EveryNamespace {
			n.Add(report.Namespace, ns)
		}
	}
	for _, u := range c.Pools.Units {
		n.AddUnit(u.Name)
	}
	for _, u := range c.HostSlices.Units {
		n.AddUnit(u)
	}
	usual := config.Default()
	if c.AnnotationDomain != usual.AnnotationDomain {
		n.Add(report.Domain, c.AnnotationDomain)
	}
	if c.PoolDomain != usual.PoolDomain {
		n.Add(report.Domain, c.PoolDomain)
	}
}

// check examines the host, as cpupoold check does.
func (r *reported) check(ctx context.Context, m machine, c preflight.Configuration) {
	within, cancel := context.WithTimeout(ctx, 2*queryTimeout)
	defer cancel()
	findings := m.check(within, c)
	r.learn(func(n *report.Redactor) {
		for _, f := range findings {
			n.AddText(f.String())
		}
	})
	r.json("check.json", findings)
}

func (r *reported) daemon(ctx context.Context, client *control.Client) {
	s, statusErr := within(ctx, func(ctx context.Context) (*inspect.Status, error) { return client.Status(ctx, 0, control.Wait{}) })
	if statusErr != nil {
		r.lack("status.json", statusErr)
	} else {
		r.learn(func(n *report.Redactor) { n.AddStatus(s) })
		r.json("status.json", s)
	}
	e, err := within(ctx, func(ctx context.Context) (*inspect.Events, error) {
		return client.Events(ctx, history.Query{}, control.Wait{})
	})
	if err != nil {
		r.lack("events.json", err)
	} else {
		r.learn(func(n *report.Redactor) { n.AddEvents(e.Events) })
		r.json("events.json", e)
	}
	if statusErr == nil {
		r.explanations(ctx, client, s)
	}
}

type versions struct {
	Version  int       `json:"version"` // of this document
	Time     time.Time `json:"time"`
	Cpupoold string    `json:"cpupoold"`
	Commit   string    `json:"commit"`
	Go       string    `json:"go"`
	Kernel   string    `json:"kernel,omitempty"`
	// Arguments are the kernel arguments (proc/cmdline). Only arguments about CPUs have
	// values, because other values can be secrets.
	Arguments string `json:"arguments,omitempty"`
	System    string `json:"system,omitempty"`
	Systemd   int    `json:"systemd,omitempty"`
	Runtime   string `json:"runtime,omitempty"`
}

func (r *reported) versions(ctx context.Context, m machine, c *config.Config) {
	b := version.Read()
	v := versions{Version: inspect.Version, Time: r.at, Cpupoold: b.Version, Commit: b.Revision, Go: b.Go}
	text := func(file string) string {
		data, err := fs.ReadFile(m.root, file)
		if err != nil {
			r.lack(file, err)
		}
		return strings.TrimSpace(string(data))
	}
	v.Kernel, v.Arguments = text("proc/version"), arguments(text("proc/cmdline"))
	for line := range strings.Lines(text("etc/os-release")) {
		if value, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			v.System = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	var err error
	if v.Systemd, err = within(ctx, m.systemd); err != nil {
		r.lack("the version of systemd", err)
	}
	endpoint := ""
	if c != nil {
		endpoint = c.RuntimeEndpoint
	}
	if c == nil || c.HasRuntime() {
		v.Runtime, err = within(ctx, func(ctx context.Context) (string, error) { return m.runtime(ctx, endpoint) })
		if err != nil {
			r.lack("the version of the container runtime", err)
		}
	}
	r.json("versions.json", v)
}

// arguments removes the values of kernel arguments, except of those about CPUs and their
// tasks (Documentation/admin-guide/kernel-parameters.txt).
func arguments(line string) string {
	about := regexp.MustCompile(`^(isolcpus|nohz|nohz_full|rcu_nocbs|rcu_nocb_poll|rcutree\..*|rcupdate\..*|irqaffinity|kthread_cpus|housekeeping|workqueue\..*|tsc|skew_tick|` +
		`maxcpus|nr_cpus|possible_cpus|nosmt|mitigations|numa.*|cgroup.*|cpuidle.*|cpufreq.*|intel_idle.*|intel_pstate|amd_pstate.*|processor.*|idle|` +
		`nmi_watchdog|nowatchdog|softlockup_panic|preempt|threadirqs|psi|transparent_hugepage|(default_)?hugepagesz?|systemd\.(cpu_affinity|unified_cgroup_hierarchy|legacy_systemd_cgroup_controller))$`)
	words := strings.Fields(line)
	for i, word := range words {
		if key, _, has := strings.Cut(word, "="); has && !about.MatchString(key) {
			words[i] = key + "=..."
		}
	}
	return strings.Join(words, " ")
}

func runtimeVersion(ctx context.Context, endpoint string) (string, error) {
	if endpoint == "" {
		found, err := cri.Find(ctx, "/")
		if err != nil {
			return "", err
		}
		endpoint = found
	}
	client, err := cri.Dial(endpoint, nil)
	if err != nil {
		return "", err
	}
	name, version, err := client.Version(ctx)
	return name + " " + version, errors.Join(err, client.Close())
}

func (r *reported) cgroups(ctx context.Context, root fs.FS) {
	const name = "cgroups.jsonl"
	tree, err := fs.Sub(root, "sys/fs/cgroup")
	if err != nil {
		r.lack(name, err)
		return
	}
	data, err := within(ctx, func(ctx context.Context) ([]byte, error) { return report.Cgroups(ctx, tree, report.MaxFile-spare/4) })
	if err != nil {
		r.lack(name, fmt.Errorf("incomplete: %w", err))
	}
	if len(data) > 0 {
		r.learn(func(n *report.Redactor) { n.AddTree(data) })
		r.add(name, data)
	}
}

func (r *reported) journal(ctx context.Context, read func(context.Context) ([]byte, error)) {
	const name = "journal.txt"
	data, err := within(ctx, read)
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		r.lack(name, fmt.Errorf("%w; where the daemon runs as a pod, add the output of kubectl logs", err))
	}
	if len(data) > 0 {
		r.learn(func(n *report.Redactor) { n.AddLog(string(data)) })
		r.add(name, report.Tail(data, report.MaxFile/2))
	}
}

// journalLines is how much of the daemon's log a report has at most.
const journalLines = 20000

// journal reads the daemon's log. A host's name is not in it.
func journal(ctx context.Context) ([]byte, error) {
	c := exec.CommandContext(ctx, "journalctl", "--unit=cpupoold.service", "--output=short-iso-precise", "--no-hostname", "--no-pager", "--quiet",
		fmt.Sprintf("--lines=%d", journalLines))
	c.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	c.WaitDelay = time.Second
	out, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// redact replaces the names in all files. It removes files that it cannot parse, because
// their names are unknown.
func (r *reported) redact() {
	if i := slices.IndexFunc(r.files, func(f report.File) bool { return f.Name == r.unredactable }); i >= 0 {
		r.files = slices.Delete(r.files, i, i+1)
		r.missing = append(r.missing, r.unredactable+": it could not be understood, so that the names in it are not known. Messages about it, in check.json, status.json and the log, may quote some: read these before you hand the report on")
	}
	names := report.NewRedactor()
	for _, add := range r.names {
		add(names)
	}
	files, missing := names.Redact(r.files)
	r.files = files
	r.missing = append(r.missing, missing...)
	for i := range r.missing {
		r.missing[i] = names.Text(r.missing[i])
	}
}

func (r *reported) all() []report.File {
	missing := "Nothing is missing.\n"
	if len(r.missing) > 0 {
		missing = strings.Join(r.missing, "\n") + "\n"
	}
	return append(slices.Clip(r.files), report.File{Name: "MISSING.txt", Data: []byte(missing)})
}
