package hosttuning

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// # Settings of the host outside of cgroups
//
// Where interrupts and threads of the kernel go, package tune keeps in a goroutine of its
// own. The owner tells it after each pass what its plan wishes, and shows what has become
// of it; neither waits for the other.

// Names of tune's files: the record survives a reboot, the mark does not.
const (
	undoName = "host.json"
	markName = "host.mark"
)

// UndoOf is where a daemon records what settings of the host were.
func UndoOf(c *config.Config, bootID string) tune.Undo {
	return tune.Undo{File: filepath.Join(c.StateDir, undoName), Mark: filepath.Join(c.RunDir, markName), BootID: bootID}
}

// TuningSources are the settings of this machine. Where the daemon is in a network
// namespace of its own, the interfaces are those of the host's.
func TuningSources(m tune.Machine) ([]tune.Source, *power.Host, error) {
	proc, err := tune.OpenDir(hostenv.ProcRoot)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", hostenv.ProcRoot, err)
	}
	sys, err := tune.OpenDir(hostenv.SysRoot)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", hostenv.SysRoot, err)
	}
	interfaces, etc := sys, os.DirFS("/etc")
	if foreign("net") {
		if interfaces, err = tune.OpenDir(hostenv.ProcRoot + "/1/root/sys"); err != nil {
			interfaces = Lost(errors.New("receive queues of the host: " + err.Error() + "; run the daemon in the host's network namespace (hostNetwork: true)"))
		}
	}
	if foreign("mnt") {
		etc = os.DirFS(hostenv.ProcRoot + "/1/root/etc")
	}
	// Whatever the configuration says now, an earlier one may have had them changed.
	host := power.NewHost(sys)
	return []tune.Source{
		tune.DefaultAffinityOf(proc, m), tune.NewBalancer(proc, sys, etc, m), tune.IRQs(proc, sys), tune.ReceiveQueues(interfaces, m),
		tune.WorkqueueOf(sys, m), tune.KThreads(proc, sys, tune.SystemAffinity{}), host,
	}, host, nil
}

// Lost is a directory that could not be opened. Whoever has no need of it does not notice.
func Lost(err error) tune.Dir {
	return tune.Dir{FS: lostFS{err}, WriteFile: func(string, string) error { return err }}
}

type lostFS struct{ err error }

func (l lostFS) Open(string) (fs.File, error) { return nil, l.err }

// foreign says that the daemon is in another namespace of a kind than the host's first
// process, as far as it may know.
func foreign(kind string) bool {
	own, err := os.Readlink(hostenv.ProcRoot + "/self/ns/" + kind)
	if err != nil {
		return false
	}
	first, err := os.Readlink(hostenv.ProcRoot + "/1/ns/" + kind)
	return err == nil && first != own
}
