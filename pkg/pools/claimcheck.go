package pools

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Bounds of claims from outside. The API server has smaller ones (k8s.io/api v0.37.0, resource/v1): 32 results of an
// allocation, 63 bytes of a namespace or a device, 127 of a request, 253 of a name.
const (
	maxClaimParts      = 32
	maxClaimContainers = 1024
	maxClaimName       = 253 // bytes of each name and UID
)

// CheckClaims returns an error unless claims are within the bounds of the API, sorted by UID, and each
// has a UID of its own. It does not compare them with the CPUs of a machine.
func CheckClaims(claims []Claim) error {
	if len(claims) > cpuset.MaxCPUs { // each has at least one CPU
		return fmt.Errorf("%d claims; at most %d are possible", len(claims), cpuset.MaxCPUs)
	}
	for i := range claims {
		c := &claims[i]
		if err := c.check(); err != nil {
			return fmt.Errorf("claim %s: %w", clip(c.UID), err)
		}
		if i > 0 && claims[i-1].UID >= c.UID {
			return fmt.Errorf("claim %s: it is not after claim %s; sort the claims by UID, and list each once", clip(c.UID), clip(claims[i-1].UID))
		}
	}
	return nil
}

func (c *Claim) check() error {
	for _, f := range []struct{ field, value string }{
		{"uid", c.UID}, {"namespace", c.Namespace}, {"name", c.Name}, {"podUID", c.PodUID},
	} {
		if err := checkName(f.field, f.value); err != nil {
			return err
		}
	}
	if len(c.Parts) == 0 || len(c.Parts) > maxClaimParts {
		return fmt.Errorf("%d allocation results; a claim has 1 to %d", len(c.Parts), maxClaimParts)
	}
	keys := make(map[string]bool, len(c.Parts))
	for i := range c.Parts {
		p := &c.Parts[i]
		if err := p.check(); err != nil {
			return fmt.Errorf("allocation result %d: %w", i+1, err)
		}
		if keys[p.key()] {
			return fmt.Errorf("allocation result %d: an earlier one has the same request, device and shareID; give each once", i+1)
		}
		keys[p.key()] = true
	}
	if len(c.Containers) > maxClaimContainers {
		return fmt.Errorf("%d containers; at most %d can use a claim", len(c.Containers), maxClaimContainers)
	}
	for i, name := range c.Containers {
		if err := checkName("container", name); err != nil {
			return err
		}
		if i > 0 && c.Containers[i-1] >= name {
			return errors.New("containers are not sorted, or one is listed twice")
		}
	}
	return nil
}

func (p *ClaimPart) check() error {
	if p.CPUs < 1 || p.CPUs > cpuset.MaxCPUs {
		return fmt.Errorf("%d CPUs; 1 to %d are possible", p.CPUs, cpuset.MaxCPUs)
	}
	if p.ShareID != "" {
		if err := checkName("shareID", p.ShareID); err != nil {
			return err
		}
	}
	return errors.Join(checkName("request", p.Request), checkName("device", p.Device))
}

// checkName checks a name or UID of the API. They appear in file names, CDI names and logs, and as elements of paths:
// none begins with a dot. None contains the separator of ClaimPart.key. A request can be of the form
// request/subrequest.
func checkName(field, value string) error {
	isOther := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	}
	isBad := func(name string) bool { return name == "" || name[0] == '.' || strings.ContainsFunc(name, isOther) }
	first, second, isSub := strings.Cut(value, "/")
	switch {
	case value == "" || len(value) > maxClaimName:
		return fmt.Errorf("%s has %d bytes; 1 to %d are possible", field, len(value), maxClaimName)
	case isBad(first), isSub && (field != "request" || isBad(second)):
		return fmt.Errorf("%s %q is not a name or UID of an object of Kubernetes", field, value)
	}
	return nil
}
