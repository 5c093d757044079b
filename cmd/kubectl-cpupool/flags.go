package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// textFlag is a flag with a text value that parse accepts.
type textFlag struct {
	text, kind string
	parse      func(text string) error
}

func (f *textFlag) Type() string { return f.kind }

func (f *textFlag) String() string { return f.text }

func (f *textFlag) Set(text string) error {
	f.text = text
	return f.parse(text)
}

// addNames adds the flags for the domains of names. The first domain is of the named things.
func addNames(flags *pflag.FlagSet, names *workload.Names, of string) {
	*names = workload.Names{Domain: "workload.openshift.io", PoolDomain: "openshift.io"}
	add := func(domain *string, name, usage string) {
		flags.Var(&textFlag{*domain, "string", func(text string) error {
			if len(validation.IsDNS1123Subdomain(text)) > 0 {
				return errors.New("is no DNS subdomain; write one like workload.openshift.io")
			}
			*domain = text
			return nil
		}}, name, usage)
	}
	add(&names.Domain, "domain", "`DOMAIN` of "+of)
	add(&names.PoolDomain, "pool-domain", "`DOMAIN` of the pools' resources")
}

func addPodLevel(flags *pflag.FlagSet, to *admission.PodLevel) {
	flags.Var(&textFlag{string(admission.PodLevelPod), "MODE", func(text string) error {
		if *to = admission.PodLevel(text); !to.Valid() {
			return errors.New("no mode; write pod or container")
		}
		return nil
	}}, "pod-level", "`MODE` of Guaranteed pods with spec.resources, pod or container, as guaranteed.podLevel on the nodes")
}

// addDefaults adds the flag for the defaults of spec.resources: a version of Kubernetes, or static.
func addDefaults(flags *pflag.FlagSet, to *admission.Defaults) {
	flags.Var(&textFlag{"1.37", "VERSION", func(text string) error {
		if text == "static" {
			*to = admission.DefaultNothing
			return nil
		}
		major, minor, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		n, err := strconv.ParseUint(minor, 10, 16)
		if err != nil || major != "1" {
			return errors.New("no version of Kubernetes; write one such as 1.37, or static")
		}
		*to = admission.DefaultsOf(int(n))
		return nil
	}}, "kubernetes", "`VERSION` of the API server that completes spec.resources, such as 1.36; "+
		"static for static pods of a kubelet 1.37 or later, which it does not complete")
}

func addExceptions(flags *pflag.FlagSet, to *admission.Exceptions) {
	check := func() (err error) {
		to.Check(func(_, value, reason string) { err = cmp.Or(err, fmt.Errorf("%q %s", value, reason)) })
		return err
	}
	flags.Var(&textFlag{"", "NAMESPACE", func(text string) error {
		to.Namespaces = append(to.Namespaces, text)
		return check()
	}}, "except-namespace", "`NAMESPACE` without resources of the shared and the guaranteed pool in its pods, as in exceptions.namespaces of the webhook; may be repeated")
	flags.Var(&textFlag{"", "LABEL", func(text string) error {
		key, value, valued := strings.Cut(text, "=")
		if to.NodeLabels == nil {
			to.NodeLabels = map[string][]string{}
		}
		switch values, again := to.NodeLabels[key]; {
		case !valued: // all values, whatever other flags name
			to.NodeLabels[key] = nil
		case !again || len(values) > 0:
			to.NodeLabels[key] = append(slices.Clone(values), value)
		}
		return check()
	}}, "except-nodes", "`LABEL[=VALUE]` of nodes: pods that can run only there get no such resource, as in exceptions.nodeLabels of the webhook; may be repeated")
}

// quantityFlag returns a flag for an amount that is not negative.
func quantityFlag(to *resource.Quantity) *textFlag {
	return &textFlag{to.String(), "QUANTITY", func(text string) (err error) {
		if *to, err = resource.ParseQuantity(text); err != nil || to.Sign() < 0 {
			return errors.New("no amount; write one such as 64Mi")
		}
		return nil
	}}
}

func checkOutput(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--output %q: no such format; write text or json", format)
	}
	return nil
}

// flagsOnly is for commands without arguments. check returns an error for bad flags.
func flagsOnly(check func() error) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.NoArgs(cmd, args); err != nil {
			return err
		}
		return check()
	}
}
