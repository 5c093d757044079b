package config

import (
	"errors"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// staticPods decodes a word or a list of namespaces. The default is allow, because the author of a
// manifest on a node is root there.
func (d *decoder) staticPods(key string, n *yaml.Node, to *pools.StaticPods) {
	if n.Kind == yaml.SequenceNode {
		*to = pools.StaticPods{}
		label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123
		d.sequence(key, n, d.scalar(func(s string) error {
			switch {
			case !label.MatchString(s):
				return errors.New("is not the name of a namespace; write each name in full")
			case slices.Contains(to.Namespaces, s):
				return errors.New("is listed twice; remove one")
			}
			to.Namespaces = append(to.Namespaces, s)
			return nil
		}))
		return
	}
	if n.Kind != yaml.ScalarNode {
		d.fail(key, "", "is neither a word nor a list; write allow, ignore, or a list of namespaces")
		return
	}
	d.scalar(func(s string) error {
		return setWord(&to.All, s, map[string]bool{"allow": true, "ignore": false}, "is not known; write allow, ignore, or a list of namespaces")
	})(key, n)
}
