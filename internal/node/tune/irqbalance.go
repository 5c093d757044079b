package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// irqbalance takes a message of at most 500 bytes.
const maxListLength = 480

// balancerTimeout bounds a conversation with irqbalance, which handles one at a time and
// none while it scans.
const balancerTimeout = 3 * time.Second

// applyTimeout is how long irqbalance may take to follow what it was told: it looks at it
// with its next scan, every 10 s unless it is told otherwise (--interval).
const applyTimeout = 2 * time.Minute

// ErrNoSocket says that irqbalance runs and cannot be told anything.
var ErrNoSocket = errors.New("irqbalance runs, and its socket is not there: it may move interrupts back; make /run/irqbalance before it starts (RuntimeDirectory=irqbalance in its unit), or stop it")

// Balancer is the irqbalance daemon of the machine, if one runs. It is told over its
// socket (irqbalance-ui's), and its configuration is only read.
type Balancer struct {
	// Proc and Sys are procfs and sysfs, Etc is /etc, and Run its directory of sockets.
	Proc, Sys Dir
	Etc       fs.FS
	Run       string
	Machine   Machine

	sent map[string]sentList // by the ID of the process
}

type sentList struct {
	value string
	at    time.Time
}

// balancerRun is where irqbalance has its socket.
const balancerRun = "/run/irqbalance"

// NewBalancer is that of a machine with its procfs, sysfs and /etc.
func NewBalancer(proc, sys Dir, etc fs.FS, m Machine) *Balancer {
	return &Balancer{Proc: proc, Sys: sys, Etc: etc, Run: balancerRun, Machine: m}
}

// Kinds is IRQBalance alone.
func (b *Balancer) Kinds() []Kind { return []Kind{IRQBalance} }

// Read asks which CPUs irqbalance leaves alone. What it was told a moment ago counts,
// although it does not say so before its next scan; and what its configuration bans, even
// if somebody has told it otherwise.
func (b *Balancer) Read(ctx context.Context) ([]Observed, error) {
	pid, id, err := b.findProcess()
	if pid == 0 || err != nil {
		return nil, err
	}
	answer, err := b.query(ctx, pid, "setup")
	if err != nil {
		return nil, err
	}
	banned, err := parseSetup(answer, b.nbits())
	if err != nil {
		return nil, err
	}
	if configured, err := b.configured(); err == nil {
		banned = banned.Union(configured)
	}
	value := banned.String()
	if told, ok := b.sent[id]; ok && told.value != value && time.Since(told.at) < applyTimeout {
		value = told.value
	}
	return []Observed{{Knob: Knob{Kind: IRQBalance}, ID: id, Value: value, Default: b.bannedByDefault().String(), Label: "irqbalance"}}, nil
}

// Write tells irqbalance which CPUs to leave alone. When those are the ones that it would
// leave alone by itself, it is told to forget what it was told.
func (b *Balancer) Write(ctx context.Context, _ Knob, value string) error {
	pid, id, err := b.findProcess()
	if err != nil {
		return err
	}
	if pid == 0 {
		return fs.ErrNotExist
	}
	want, err := cpuset.Parse(value)
	if err != nil {
		return err
	}
	list := value
	if want.IsEmpty() || want.Equal(b.bannedByDefault()) {
		list = "NULL"
	}
	if len(list) > maxListLength {
		return fmt.Errorf("list of %d bytes is longer than irqbalance takes (%d)", len(list), maxListLength)
	}
	if _, err := b.query(ctx, pid, "settings cpus "+list); err != nil {
		return err
	}
	b.sent = map[string]sentList{id: {value, time.Now()}}
	return nil
}

func (b *Balancer) nbits() int { return b.Machine.Possible.Last() + 1 }

// findProcess returns the process, 0 if there is none, and what tells it from one that has its
// number later. Anybody can give a process this name, in a container too: the one with the
// socket counts, in a directory that is root's.
func (b *Balancer) findProcess() (pid int, id string, err error) {
	names, err := b.Proc.numbers(".")
	if err != nil {
		return 0, "", err
	}
	for _, name := range names {
		text, err := b.Proc.read(name + "/stat")
		if err != nil || !strings.Contains(text, "(irqbalance)") {
			continue
		}
		t, err := parseStat(text)
		if err != nil || t.comm != "irqbalance" {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		_, err = os.Lstat(b.socket(n))
		if pid == 0 || err == nil {
			pid, id = n, name+" "+strconv.FormatUint(t.start, 10)
		}
		if err == nil {
			break
		}
	}
	return pid, id, nil
}

func (b *Balancer) socket(pid int) string {
	return filepath.Join(b.Run, "irqbalance"+strconv.Itoa(pid)+".sock")
}

// query has a conversation: one message, and what comes until the end.
func (b *Balancer) query(ctx context.Context, pid int, message string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, balancerTimeout)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", b.socket(pid))
	if isGone(err) {
		return "", ErrNoSocket
	}
	if err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	defer c.Close() //nolint:errcheck // nothing is left to be sent
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return "", errors.New("irqbalance: its socket is none of a machine's own")
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", fmt.Errorf("irqbalance: %w", err)
		}
	}
	who := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}) //nolint:gosec // the kernel's own types
	if _, _, err := conn.WriteMsgUnix([]byte(message), who, nil); err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxFile))
	if err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	return string(answer), nil
}

// configured are the CPUs that its environment files ban.
func (b *Balancer) configured() (cpuset.Set, error) {
	var all cpuset.Set
	var errs []error
	for _, name := range []string{"default/irqbalance", "sysconfig/irqbalance"} {
		text, err := Dir{FS: b.Etc}.read(name)
		if isGone(err) {
			continue
		}
		if err == nil {
			var set cpuset.Set
			set, err = parseBanned(text, b.nbits())
			all = all.Union(set)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("/etc/%s: %w", name, err))
		}
	}
	return all, errors.Join(errs...)
}

// bannedByDefault are the CPUs that it leaves alone if it is told nothing: those that its
// configuration bans, or else those that the kernel's command line isolates.
func (b *Balancer) bannedByDefault() cpuset.Set {
	banned, err := b.configured()
	if err != nil || !banned.IsEmpty() {
		return banned
	}
	return isolatedCPUs(b.Sys, "isolated", "nohz_full")
}
