package config

import (
	"errors"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The words of staticPods. Whoever can write a manifest on a node is root there, so
// that nothing is gained by forbidding it by default.
const (
	staticAllow  = "allow"
	staticIgnore = "ignore"
)

// staticPods decodes a word or a list of namespaces.
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
		switch s {
		case staticAllow:
			*to = pools.StaticPods{All: true}
		case staticIgnore:
			*to = pools.StaticPods{}
		default:
			return errors.New("is not known; write allow, ignore, or a list of namespaces")
		}
		return nil
	})(key, n)
}
