package cri

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// infoKey is where both runtimes put the one JSON document of a verbose status.
const infoKey = "info"

var errMissing = errors.New("missing")

// info is the part of that document that cpupoold reads. CRI does not specify
// it; containerd (internal/cri/server/container_status.go, podsandbox
// controller) and CRI-O (server/container_status.go, sandbox_status.go) agree on
// these names. config and resources are containerd's alone.
type info struct {
	SandboxID   string `json:"sandboxID"`
	PID         int    `json:"pid"`
	RuntimeSpec struct {
		Annotations struct {
			CgroupParent string `json:"io.kubernetes.cri-o.CgroupParent"`
			Resources    string `json:"io.kubernetes.cri-o.PodLinuxResources"`
			ResourcesV2  string `json:"pod-linux-resources.crio.io"`
		} `json:"annotations"`
		Process struct {
			Env environment `json:"env"`
		} `json:"process"`
		Linux struct {
			CgroupsPath string `json:"cgroupsPath"`
			Resources   struct {
				CPU Resources `json:"cpu"`
			} `json:"resources"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
	Config struct {
		Linux struct {
			CgroupParent string `json:"cgroup_parent"`
			Resources    criCPU `json:"resources"`
		} `json:"linux"`
		// CDIDevices are the devices of the kubelet's request for a container, without their names.
		CDIDevices []struct{} `json:"CDI_devices,omitempty"`
	} `json:"config"`
	// Resources is there once UpdatePodSandboxResources has changed those in
	// Config (containerd 2.2 and later).
	Resources *struct {
		Linux criCPU `json:"linux"`
	} `json:"resources"`
}

// criCPU is CRI's LinuxContainerResources.
type criCPU struct {
	Shares int64  `json:"cpu_shares"`
	Quota  int64  `json:"cpu_quota"`
	Period int64  `json:"cpu_period"`
	CPUs   string `json:"cpuset_cpus"`
	Mems   string `json:"cpuset_mems"`
}

func (c criCPU) resources() Resources {
	// CRI has shares signed; below zero they mean nothing.
	return Resources{Shares: uint64(max(c.Shares, 0)), Quota: c.Quota, Period: c.Period, CPUs: c.CPUs, Mems: c.Mems}
}

// parseInfo decodes a result of trimDocument. For a malformed document it returns the zero info
// and the path of the malformed field, if known: a document with one malformed part is
// rejected as a whole.
func parseInfo(doc string) (info, string, error) {
	if doc == "" {
		return info{}, "", errMissing
	}
	if wrong, is := strings.CutPrefix(doc, notJSON); is {
		field, reason, _ := strings.Cut(wrong, notJSON)
		return info{}, field, errors.New(reason)
	}
	var i info
	err := json.Unmarshal([]byte(doc), &i)
	return i, "", err
}

// CRI-O's verbose pod status has no config. CRI-O keeps it in annotations of the
// sandbox's OCI spec (pkg/annotations; the later names since 1.35), next to the
// annotations of the pod itself.
const (
	crioCgroupParent   = "io.kubernetes.cri-o.CgroupParent"
	crioPodResources   = "io.kubernetes.cri-o.PodLinuxResources"
	crioPodResourcesV2 = "pod-linux-resources.crio.io"
)

// isPodConfig reports whether CRI-O keeps a part of a pod's configuration below this key.
func isPodConfig(key string) bool {
	return key == crioCgroupParent || key == crioPodResources || key == crioPodResourcesV2
}

// podConfig returns the cgroup parent and the resources of a pod. own are the
// pod's own annotations: of the keys above, one that the pod has itself may be
// its author's invention and is not believed.
func (i *info) podConfig(own map[string]string) (parent string, r Resources, field string, err error) {
	if i.Resources != nil {
		r = i.Resources.Linux.resources()
	} else {
		r = i.Config.Linux.Resources.resources()
	}
	parent = i.Config.Linux.CgroupParent
	annotations := &i.RuntimeSpec.Annotations
	if _, forged := own[crioCgroupParent]; parent == "" && !forged {
		parent = annotations.CgroupParent
	}
	for _, a := range []struct{ key, doc string }{{crioPodResourcesV2, annotations.ResourcesV2}, {crioPodResources, annotations.Resources}} {
		if _, forged := own[a.key]; forged || a.doc == "" || r != (Resources{}) {
			continue
		}
		var c criCPU
		if err := json.Unmarshal([]byte(a.doc), &c); err != nil {
			return parent, Resources{}, "runtimeSpec.annotations." + a.key, err
		}
		r = c.resources()
	}
	return parent, r, "", nil
}

// The document of a verbose status contains the environment of a container more than once: in the
// configuration and in the OCI spec. The author of a pod chooses its size, and JSON takes six
// bytes for some characters. So the client decodes the document from the pieces in which gRPC
// received it, and skips all fields that info does not have.

// notJSON is the begin of the result of trimDocument for a document that cannot be decoded. The path
// of the field follows, then notJSON again and the error.
const notJSON = "!"

// trimDocument returns the document with the fields of info only.
func trimDocument(from io.Reader) []byte {
	var i info
	// Without a list of the names in each object, whose number the author of a pod chooses.
	err := json.UnmarshalRead(from, &i, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var doc []byte
	if err == nil {
		doc, err = json.Marshal(i, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		field := ""
		if wrong, is := errors.AsType[*json.SemanticError](err); is {
			field = strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", ".")
		}
		return []byte(notJSON + field + notJSON + err.Error())
	}
	return doc
}

// environment holds the variable OPENSHIFT_SHARED_CPUS of an environment: the last one, because no
// other counts.
type environment []string

// UnmarshalJSONFrom keeps one string of the list in memory at a time.
func (e *environment) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return json.UnmarshalDecode(from, (*[]string)(e))
	}
	_, err := from.ReadToken()
	var variable []byte
	for err == nil && from.PeekKind() != ']' {
		var quoted jsontext.Value
		if quoted, err = from.ReadValue(); err != nil {
			return err
		}
		if quoted.Kind() != '"' {
			return errors.New("a variable is not a string")
		}
		variable, _ = jsontext.AppendUnquote(variable[:0], quoted) // invalid UTF-8 is replaced
		if bytes.HasPrefix(variable, []byte(SharedCPUsVariable+"=")) {
			*e = environment{string(variable)}
		}
	}
	if err == nil {
		_, err = from.ReadToken()
	}
	return err
}

// SharedCPUsVariable is the environment variable with the CPUs that CRI-O adds to the cpuset
// of a container with each update (cri-o 1.34.0, server/container_update_resources.go,
// reapplySharedCPUs). CRI-O reads it in the container's OCI spec, so its author can be the
// author of the pod or of the image.
const SharedCPUsVariable = "OPENSHIFT_SHARED_CPUS"

// maxVariable is the maximum number of bytes of a variable's value that are kept. A pod chooses
// the length of its environment.
const maxVariable = 1024

// SharedCPUs returns the value of OPENSHIFT_SHARED_CPUS in an environment of NAME=value, as
// CRI-O reads it: the last entry counts, and ends before a second equals sign. A value of
// more than 1024 bytes is cut, and is no list of CPUs then. The result is empty without the
// variable.
func SharedCPUs(env []string) string {
	value := ""
	for _, e := range env {
		if after, is := strings.CutPrefix(e, SharedCPUsVariable+"="); is {
			value, _, _ = strings.Cut(after, "=")
		}
	}
	return clip(value, maxVariable)
}

// clip returns a copy of a value, cut to limit bytes with an end mark if it is longer. The copy does not
// keep the message of the runtime in memory.
func clip(value string, limit int) string {
	const endMark = "..."
	if len(value) > limit {
		value = strings.ToValidUTF8(value[:limit-len(endMark)], "") + endMark
	}
	return strings.Clone(value)
}
