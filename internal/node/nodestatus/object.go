package nodestatus

import (
	"encoding/json"
	"strconv"
	"time"
)

// object holds the fields of a Node that the Runner uses.
type object struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`

		ManagedFields []managedEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Taints []json.RawMessage `json:"taints"`
	} `json:"spec"`
	Status struct {
		Capacity    map[string]string `json:"capacity"`
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []condition       `json:"conditions"`
	} `json:"status"`
}

type managedEntry struct {
	Manager string `json:"manager"`
	Fields  struct {
		Status struct {
			Capacity    map[string]json.RawMessage `json:"f:capacity"`
			Allocatable map[string]json.RawMessage `json:"f:allocatable"`
		} `json:"f:status"`
	} `json:"fieldsV1"`
}

type condition struct {
	Type       string    `json:"type"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	Heartbeat  time.Time `json:"lastHeartbeatTime"`
	Transition time.Time `json:"lastTransitionTime"`
}

// version returns the resource version as a number: newer versions are higher (KEP-5504). It
// returns 0 if the version is not a number.
func (o *object) version() uint64 {
	v, err := strconv.ParseUint(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// condition returns the condition of a type, or nil.
func (o *object) condition(typ string) *condition {
	for i := range o.Status.Conditions {
		if o.Status.Conditions[i].Type == typ {
			return &o.Status.Conditions[i]
		}
	}
	return nil
}
