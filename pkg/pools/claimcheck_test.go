package pools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestCheckClaims checks each bound of a claim, and the value just inside of it.
func TestCheckClaims(t *testing.T) {
	part := func(change func(*pools.ClaimPart)) func(*pools.Claim) {
		return func(c *pools.Claim) { change(&c.Parts[0]) }
	}
	parts := func(n int) func(*pools.Claim) {
		return func(c *pools.Claim) {
			c.Parts = nil
			for i := range n {
				c.Parts = append(c.Parts, pools.ClaimPart{Request: fmt.Sprint("r", i), Device: "numa0", CPUs: 1})
			}
		}
	}
	containers := func(n int) func(*pools.Claim) {
		return func(c *pools.Claim) {
			c.Containers = nil
			for i := range n {
				c.Containers = append(c.Containers, fmt.Sprintf("c%04d", i))
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*pools.Claim)
		want   string // part of the error; empty for a good claim
	}{
		"good":                    {func(*pools.Claim) {}, ""},
		"no container":            {func(c *pools.Claim) { c.Containers = nil }, ""},
		"subrequest":              {part(func(p *pools.ClaimPart) { p.Request = "cpus/few" }), ""},
		"subrequest of parent":    {part(func(p *pools.ClaimPart) { p.Request = "cpus/.." }), `request "cpus/.." is not`},
		"two subrequests":         {part(func(p *pools.ClaimPart) { p.Request = "cpus/few/two" }), `request "cpus/few/two" is not`},
		"no subrequest":           {part(func(p *pools.ClaimPart) { p.Request = "cpus/" }), `request "cpus/" is not`},
		"no parent request":       {part(func(p *pools.ClaimPart) { p.Request = "/few" }), `request "/few" is not`},
		"request dot":             {part(func(p *pools.ClaimPart) { p.Request = "." }), `request "." is not`},
		"request two dots":        {part(func(p *pools.ClaimPart) { p.Request = ".." }), `request ".." is not`},
		"hidden request":          {part(func(p *pools.ClaimPart) { p.Request = ".cpus" }), `request ".cpus" is not`},
		"dot inside":              {func(c *pools.Claim) { c.Name = "du.0" }, ""},
		"namespace of two dots":   {func(c *pools.Claim) { c.Namespace = ".." }, `namespace ".." is not`},
		"hidden name":             {func(c *pools.Claim) { c.Name = ".du" }, `name ".du" is not`},
		"hidden container":        {func(c *pools.Claim) { c.Containers = []string{".app"} }, `container ".app" is not`},
		"slash in the uid":        {func(c *pools.Claim) { c.UID = "../u" }, `uid "../u" is not`},
		"slash in the device":     {part(func(p *pools.ClaimPart) { p.Device = "numa0/x" }), `device "numa0/x" is not`},
		"no share":                {part(func(p *pools.ClaimPart) { p.ShareID = "" }), ""},
		"no uid":                  {func(c *pools.Claim) { c.UID = "" }, "uid has 0 bytes"},
		"no pod":                  {func(c *pools.Claim) { c.PodUID = "" }, "podUID has 0 bytes"},
		"no name":                 {func(c *pools.Claim) { c.Name = "" }, "name has 0 bytes"},
		"no namespace":            {func(c *pools.Claim) { c.Namespace = "" }, "namespace has 0 bytes"},
		"longest name":            {func(c *pools.Claim) { c.Name = strings.Repeat("a", 253) }, ""},
		"longer name":             {func(c *pools.Claim) { c.Name = strings.Repeat("a", 254) }, "name has 254 bytes"},
		"line break":              {func(c *pools.Claim) { c.Name = "a\nb" }, `name "a\nb" is not a name or UID`},
		"no parts":                {parts(0), "0 allocation results"},
		"most parts":              {parts(32), ""},
		"too many parts":          {parts(33), "33 allocation results"},
		"same part twice":         {func(c *pools.Claim) { c.Parts = append(c.Parts, c.Parts[0]) }, "allocation result 2: an earlier one has the same"},
		"no device":               {part(func(p *pools.ClaimPart) { p.Device = "" }), "device has 0 bytes"},
		"no request":              {part(func(p *pools.ClaimPart) { p.Request = "" }), "request has 0 bytes"},
		"separator of parts":      {part(func(p *pools.ClaimPart) { p.Request = "a|numa0" }), "request \"a|numa0\" is not"},
		"separator in the share":  {part(func(p *pools.ClaimPart) { p.ShareID = "a|b" }), "shareID \"a|b\" is not"},
		"no CPUs":                 {part(func(p *pools.ClaimPart) { p.CPUs = 0 }), "0 CPUs"},
		"less than no CPUs":       {part(func(p *pools.ClaimPart) { p.CPUs = -1 }), "-1 CPUs"},
		"most CPUs":               {part(func(p *pools.ClaimPart) { p.CPUs = 8192 }), ""},
		"too many CPUs":           {part(func(p *pools.ClaimPart) { p.CPUs = 8193 }), "8193 CPUs"},
		"most containers":         {containers(1024), ""},
		"too many containers":     {containers(1025), "1025 containers"},
		"container without name":  {func(c *pools.Claim) { c.Containers = []string{""} }, "container has 0 bytes"},
		"container twice":         {func(c *pools.Claim) { c.Containers = []string{"a", "a"} }, "not sorted, or one is listed twice"},
		"containers out of order": {func(c *pools.Claim) { c.Containers = []string{"b", "a"} }, "not sorted"},
	} {
		claim := pools.Claim{UID: "u", Namespace: "ran", Name: "du", PodUID: "p", Containers: []string{"app"},
			Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", ShareID: "s", CPUs: 2}}}
		c.change(&claim)
		err := pools.CheckClaims([]pools.Claim{claim})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// TestCheckClaimList checks the order and number of claims.
func TestCheckClaimList(t *testing.T) {
	claims := func(uids ...string) (all []pools.Claim) {
		for _, uid := range uids {
			all = append(all, pools.Claim{UID: uid, Namespace: "ran", Name: "du", PodUID: "p", Parts: []pools.ClaimPart{{Request: "cpus", Device: "numa0", CPUs: 1}}})
		}
		return all
	}
	most := make([]string, 8192)
	for i := range most {
		most[i] = fmt.Sprintf("%04d", i)
	}
	for name, c := range map[string]struct {
		uids []string
		want string
	}{
		"none":         {nil, ""},
		"sorted":       {[]string{"a", "b"}, ""},
		"twice":        {[]string{"a", "a"}, "claim a: it is not after claim a"},
		"out of order": {[]string{"b", "a"}, "claim a: it is not after claim b"},
		"most":         {most, ""},
		"too many":     {append(most, "9999"), "8193 claims"},
	} {
		err := pools.CheckClaims(claims(c.uids...))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
