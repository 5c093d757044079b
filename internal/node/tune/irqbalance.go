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

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxListLength is the maximum number of bytes of a list of CPUs. irqbalance reads 500 bytes
// of a message (irqbalance.c, sock_handle), which begins with "settings cpus ".
const maxListLength = 480

// balancerTimeout limits a connection: irqbalance has one thread for scans and connections.
const balancerTimeout = 3 * time.Second

// applyTimeout limits the time in which irqbalance applies a new list: at its next scan, by
// default every 10 s (--interval).
const applyTimeout = 2 * time.Minute

// ErrNoSocket means that irqbalance runs without a socket.
var ErrNoSocket = errors.New("irqbalance runs without its socket and may move interrupts back; create /run/irqbalance before it starts (RuntimeDirectory=irqbalance in its unit), or stop it")

// Balancer is the source of the CPUs that irqbalance does not use (banned CPUs), if
// irqbalance runs. It writes to irqbalance's socket, as irqbalance-ui does, and only reads
// irqbalance's configuration.
type Balancer struct {
	// Proc and Sys are procfs and sysfs, Etc is /etc. Run is the directory of the socket.
	Proc, Sys Dir
	Etc       fs.FS
	Run       string
	Machine   Machine

	sent struct { // the last list
		id, value string // id is the process ID and the start time
		at        time.Time
	}
}

const balancerRun = "/run/irqbalance"

// NewBalancer returns the Balancer of a machine with its procfs, sysfs and /etc.
func NewBalancer(proc, sys Dir, etc fs.FS, m Machine) *Balancer {
	return &Balancer{Proc: proc, Sys: sys, Etc: etc, Run: balancerRun, Machine: m}
}

// Kinds implements [Source].
func (b *Balancer) Kinds() []Kind { return []Kind{IRQBalance} }

// Read returns the banned CPUs. They include the CPUs that irqbalance's configuration bans,
// even if another process has sent a list without them. irqbalance reports a new list only
// after its next scan. So a list that Write sent less than applyTimeout ago takes precedence.
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
	if b.sent.id == id && time.Since(b.sent.at) < applyTimeout {
		value = b.sent.value
	}
	return []Observed{{Knob: Knob{Kind: IRQBalance}, ID: id, Value: value, Default: b.bannedByDefault().String(), Label: "irqbalance"}}, nil
}

// Write sends the banned CPUs to irqbalance. If they are the default, it sends NULL, which
// makes irqbalance drop the list of an earlier message.
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
		return fmt.Errorf("list of %d bytes exceeds the limit of irqbalance (%d)", len(list), maxListLength)
	}
	if _, err := b.query(ctx, pid, "settings cpus "+list); err != nil {
		return err
	}
	b.sent.id, b.sent.value, b.sent.at = id, value, time.Now()
	return nil
}

func (b *Balancer) nbits() int { return b.Machine.Possible.Last() + 1 }

// findProcess returns irqbalance's PID, or 0, and an ID with its start time. Any process can have
// the name, so the one with a socket takes precedence.
func (b *Balancer) findProcess() (pid int, id string, err error) {
	names, err := b.Proc.numbers(".")
	if err != nil {
		return 0, "", err
	}
	for _, name := range names {
		text, err := b.Proc.Read(name + "/stat")
		if err != nil || !strings.Contains(text, "(irqbalance)") {
			continue
		}
		t, err := audit.ParseStat([]byte(text))
		if err != nil || t.Comm != "irqbalance" {
			continue
		}
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		_, err = os.Lstat(b.socket(n))
		if pid == 0 || err == nil {
			pid, id = n, name+" "+strconv.FormatUint(t.Start, 10)
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

func (b *Balancer) query(ctx context.Context, pid int, message string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, balancerTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialUnix(ctx, "unix", nil, &net.UnixAddr{Name: b.socket(pid), Net: "unix"})
	if isGone(err) {
		return "", ErrNoSocket
	}
	if err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	defer conn.Close() //nolint:errcheck // all data is sent
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	credentials := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}) //nolint:gosec // types of the kernel
	if _, _, err := conn.WriteMsgUnix([]byte(message), credentials, nil); err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxFile))
	if err != nil {
		return "", fmt.Errorf("irqbalance: %w", err)
	}
	return string(answer), nil
}

func (b *Balancer) configured() (cpuset.Set, error) {
	var all cpuset.Set
	var errs []error
	for _, name := range []string{"default/irqbalance", "sysconfig/irqbalance"} {
		text, err := Dir{FS: b.Etc}.Read(name)
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

// bannedByDefault returns the CPUs of the configuration, or else the isolated CPUs.
func (b *Balancer) bannedByDefault() cpuset.Set {
	banned, err := b.configured()
	if err != nil || !banned.IsEmpty() {
		return banned
	}
	return isolatedCPUs(b.Sys, "isolated", "nohz_full")
}
