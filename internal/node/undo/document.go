package undo

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// A version is raised when an older daemon could misread the file. Since version 2 the file
// contains originals of systemd units, which a daemon that knows only version 1 would take
// for originals of cgroups. Version 1 has the same meaning in both. A file with ResourceClaims has
// version 3: an older daemon would give the CPUs of claims to other containers. Files without claims
// keep version 2, so that older daemons read them.
const oldestVersion, version, claimsVersion = 1, 2, 3

// Document is the durable form of a Journal. For running containers the kernel and the
// runtime are authoritative: assignments here only break ties. Originals exist nowhere
// else.
type Document struct {
	// BootID identifies the boot (/proc/sys/kernel/random/boot_id). Cgroups end with the
	// boot, and so does everything recorded about them.
	BootID string `json:"bootID"`
	// Change is the number of the newest change. It grows while daemons read each other's files. It is
	// 0 in files of older daemons.
	Change int `json:"change,omitempty"`
	// OnDisk is the newest change of the file on disk, if the document was read; 0 if it is unknown.
	OnDisk int `json:"-"`
	// EarlierBoot means that Find found a journal of an earlier boot.
	EarlierBoot bool `json:"-"`
	// Lost means that a journal of this boot existed, and that its originals are unknown now.
	Lost bool `json:"-"`
	// Damage is the reason why the file cannot be used; nil if the file is missing. Without Lost, it is
	// the reason why newer changes in RunDir cannot be used.
	Damage      error              `json:"-"`
	Originals   []Original         `json:"originals"`
	Assignments []pools.Assignment `json:"assignments"`
	// Unhinted are the containers whose CPUs were chosen before the kubelet reported their
	// NUMA nodes. No other source has this fact.
	Unhinted []pools.Key `json:"unhinted,omitempty"`
	// Others are the containers whose CPUs another NRI plugin chose: no other source has them.
	Others []managers.Left `json:"others,omitempty"`
	// Resting are the CPUs that the quiet period kept out of the shared pool.
	Resting cpuset.Set `json:"resting,omitzero"`
	// Claims are the prepared ResourceClaims. They and their assignments outlive the boot: the
	// kubelet prepares them again, and they keep their CPUs.
	Claims []pools.Claim `json:"claims,omitempty"`
	// Accepted is the newest configuration that fitted the machine. It outlives the boot.
	Accepted *Accepted `json:"accepted,omitempty"`
}

var errDamaged = errors.New("journal cannot be used")

// encode returns equal bytes for equal documents. It refuses claims that decode would refuse: such a file
// would lose the originals.
func encode(d Document) ([]byte, error) {
	if err := d.checkClaims(); err != nil {
		return nil, err
	}
	if d.hasClaims() {
		return durable.Encode(claimsVersion, d)
	}
	return durable.Encode(version, d)
}

// decode returns errDamaged for everything that no version of encode has written.
func decode(b []byte) (Document, error) {
	var d Document
	err := durable.Decode(b, oldestVersion, claimsVersion, &d)
	if err == nil {
		err = d.checkClaims()
	}
	if err == nil && d.Change < 0 {
		err = fmt.Errorf("the newest change has the number %d", d.Change)
	}
	if err != nil {
		return Document{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return d, nil
}

// checkClaims bounds the claims, and their assignments.
func (d Document) checkClaims() error {
	for _, a := range d.Assignments {
		if a.Claim != "" && a.PodUID != "" {
			return fmt.Errorf("assignment of claim %.80q has the pod %.80q; the CPUs of a claim have no other owner", a.Claim, a.PodUID)
		}
	}
	return pools.CheckClaims(d.Claims)
}

// inBoot keeps only facts that outlive a boot, if the document is of an earlier one.
func (d Document) inBoot(bootID string) Document {
	if d.BootID == bootID {
		return d
	}
	if d.Accepted != nil {
		d.Accepted = &Accepted{Pools: d.Accepted.Pools, Present: d.Accepted.Present, Online: d.Accepted.Online}
	}
	ofClaims := slices.DeleteFunc(slices.Clone(d.Assignments), func(a pools.Assignment) bool { return a.Claim == "" })
	return Document{BootID: bootID, Assignments: ofClaims, Claims: d.Claims, Accepted: d.Accepted}
}

// hasClaims reports whether older daemons must not read the document.
func (d Document) hasClaims() bool {
	return len(d.Claims) > 0 || slices.ContainsFunc(d.Assignments, func(a pools.Assignment) bool { return a.Claim != "" })
}

// Accepted describes pools and the machine that they fitted. After a change of the machine
// a reload adapts a configuration that fitted before, and refuses any other. A daemon that
// starts adapts both.
type Accepted struct {
	// Pools is a digest of the configured pools.
	Pools   string     `json:"pools"`
	Present cpuset.Set `json:"present"`
	Online  cpuset.Set `json:"online"`
	// Auto are the CPUs of partitions with cpus: auto, in order. They end with the boot.
	Auto []cpuset.Set `json:"auto,omitempty"`
}

// OnOtherMachine reports whether the same pools were accepted on a machine with other CPUs.
func (a *Accepted) OnOtherMachine(now Accepted) bool {
	return a != nil && a.Pools == now.Pools && (!a.Present.Equal(now.Present) || !a.Online.Equal(now.Online))
}

// Equal reports whether all fields are the same.
func (a *Accepted) Equal(b Accepted) bool {
	return a != nil && a.Pools == b.Pools && a.Present.Equal(b.Present) && a.Online.Equal(b.Online) && slices.EqualFunc(a.Auto, b.Auto, cpuset.Set.Equal)
}
