package undo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// JournalVersion is raised when an older daemon could misread the file. Since 2 it
// has originals of systemd units; what only knows version 1 would take them for
// those of cgroups. Version 1 means the same in both.
const JournalVersion, OldestJournal = 2, 1

// journalLimit bounds what is read back: 64 MiB holds about 300,000 originals.
const journalLimit = 64 << 20

// Document is the durable record of what the daemon has changed and decided. The
// truth about running containers is the kernel's and the runtime's: assignments
// here only break ties. Originals exist nowhere else.
type Document struct {
	// BootID is the kernel's boot (/proc/sys/kernel/random/boot_id): cgroups die
	// with it, and what is recorded about them too.
	BootID      string       `json:"bootID"`
	Originals   []Original   `json:"originals"`
	Assignments []Assignment `json:"assignments"`
	// Unhinted are the containers whose CPUs were chosen before the kubelet had told
	// their NUMA nodes: nobody else can tell afterwards.
	Unhinted []Owner `json:"unhinted,omitempty"`
	// Others are the containers that had their CPUs from another plugin of NRI: nobody
	// else can tell afterwards.
	Others []Left `json:"others,omitempty"`
	// Resting are the CPUs that were kept out of the shared pool (quiet).
	Resting cpuset.Set `json:"resting,omitzero"`
	// Accepted is the newest configuration that fitted the machine, and the machine.
	// It outlives the boot.
	Accepted *Accepted `json:"accepted,omitempty"`
}

// Original is the value that a file of a cgroup held before the daemon's first
// write to it.
type Original struct {
	Path      cgroup.Path `json:"path"`
	File      string      `json:"file"`                // cpuset.cpus, cpuset.mems, cpu.weight or cpu.max
	Container string      `json:"container,omitempty"` // CRI id, where the cgroup is a container's
	Unit      string      `json:"unit,omitempty"`      // systemd unit, where the configuration names it
	Value     string      `json:"value"`               // as the kernel printed it; of a unit: its property, "" if not set
}

// Assignment is pools.Assignment as the file spells it.
type Assignment struct {
	PodUID    string     `json:"podUID"`
	Container string     `json:"container"`
	CPUs      cpuset.Set `json:"cpus"`
	Away      cpuset.Set `json:"away,omitzero"`
}

// Owner is pools.Key as the file spells it.
type Owner struct {
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
}

// Left is a container that is left to another manager. What earlier builds have written
// has no ID: it is then all containers of the name.
type Left struct {
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
	ID        string `json:"id,omitempty"` // CRI id
}

var ErrBadJournal = errors.New("journal cannot be used")

// Encode gives equal bytes for equal journals.
func Encode(j Document) ([]byte, error) {
	b, err := durable.Encode(JournalVersion, j)
	if err != nil {
		return nil, fmt.Errorf("encode journal: %w", err)
	}
	return b, nil
}

// Decode is strict: a journal that is not exactly what encodeJournal
// wrote, now or when it wrote an older version, is errBadJournal.
func Decode(b []byte) (Document, error) {
	var j Document
	if err := durable.Decode(b, OldestJournal, JournalVersion, &j); err != nil {
		return Document{}, fmt.Errorf("%w: %w", ErrBadJournal, err)
	}
	return j, nil
}

// Load reads the journal of this boot. A missing file is an empty
// journal. A damaged one is set aside beside it, and one of an earlier boot is
// passed over, since its cgroups are gone, up to the machine that it was made on;
// in both cases note says what happened. It never fails: the daemon can work without.
func Load(name, bootID string, now time.Time) (j Document, note error) {
	empty := Document{BootID: bootID}
	b, err := durable.Read(name, journalLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return empty, nil
	case err != nil:
		err = fmt.Errorf("read journal: %w", err)
		if mvErr := os.Rename(name, name+".unread"); mvErr != nil { // or the next save would replace it
			err = fmt.Errorf("%w (and it could not be set aside: %w)", err, mvErr)
		}
		return empty, fmt.Errorf("%w: starting with an empty one", err)
	}
	if j, err = Decode(b); err != nil {
		aside := fmt.Sprintf("%s.bad-%d", name, now.Unix())
		if mvErr := os.Rename(name, aside); mvErr != nil {
			return empty, fmt.Errorf("%s: %w (and it could not be set aside: %w)", name, err, mvErr)
		}
		return empty, fmt.Errorf("%s: %w: set aside as %s; the originals in it are lost, and `cpupoold restore` cannot put them back", name, err, aside)
	}
	return j.of(bootID), nil
}

// of is what the journal says about a boot: nothing but what outlives one, if it is
// of an earlier one.
func (j Document) of(bootID string) Document {
	if j.BootID == bootID {
		return j
	}
	return Document{BootID: bootID, Accepted: j.Accepted}
}

// Save replaces the journal atomically and durably.
func Save(name string, j Document) error {
	b, err := Encode(j)
	if err != nil {
		return err
	}
	if err := durable.Write(name, b); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

func toRecords(as []pools.Assignment) []Assignment {
	out := make([]Assignment, 0, len(as))
	for _, a := range as {
		out = append(out, Assignment{PodUID: a.Key.PodUID, Container: a.Key.Container, CPUs: a.CPUs, Away: a.Away})
	}
	return out
}

func fromRecords(rs []Assignment) []pools.Assignment {
	out := make([]pools.Assignment, 0, len(rs))
	for _, r := range rs {
		out = append(out, pools.Assignment{Key: pools.Key{PodUID: r.PodUID, Container: r.Container}, CPUs: r.CPUs, Away: r.Away})
	}
	return out
}

func SortOriginals(os []Original) {
	slices.SortFunc(os, func(a, b Original) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.File, b.File))
	})
}

// State is what has become of a journal.
type State int

const (
	Known State = iota
	Missing
	EarlierBoot
	Damaged
	Unreadable // the disk does not give it
)

// Examine reads the journal of this boot as peekJournal does, and says what has
// become of it. Of all but a known one the error says why.
func Examine(name string) (Document, State, error) {
	bootID, err := ReadBootID()
	if err != nil {
		return Document{}, Unreadable, err
	}
	b, err := durable.Read(name, journalLimit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Document{BootID: bootID}, Missing, nil
	case err != nil:
		return Document{BootID: bootID}, Unreadable, fmt.Errorf("read journal: %w; it holds what restore puts back: repair the disk, or move the file away, and defaults stand in for it", err)
	}
	j, err := Decode(b)
	switch {
	case err != nil:
		return Document{BootID: bootID}, Damaged, fmt.Errorf("%s: %w", name, err)
	case j.BootID != bootID:
		return j.of(bootID), EarlierBoot, nil
	}
	return j, Known, nil
}
