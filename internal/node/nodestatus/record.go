package nodestatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/quantity"
)

// RecordFile is the name of the kubelet's record of admitted pods, in its state directory.
// Kubelet 1.33 and later write it, unless in-place resize is disabled (kubernetes,
// pkg/kubelet/allocation).
const RecordFile = "allocated_pods_state"

// maxRecord is in bytes. 500 pods with 20 containers each take about 2 MiB.
const maxRecord = 64 << 20

// Record holds the requests of pods at admission or at the last resize, by UID.
type Record map[string]Asked

// Asked holds the requests of a pod.
type Asked struct {
	// Milli is the CPU request of the pod itself (spec.resources), or 0.
	Milli int64
	// Containers holds the requests of containers that run as long as the pod, by name. The
	// kubelet's record has no init containers that end.
	Containers map[string]Request
}

// Request holds the requests of a container.
type Request struct {
	// Milli is the CPU request in thousandths.
	Milli int64
	// Extended holds the requests of resources with a domain, in their own unit.
	Extended map[string]int64
}

// ReadRecord reads the kubelet's record. A missing file returns nil without an error.
func ReadRecord(file string) (Record, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubelet's record: %w", err)
	}
	if info.Size() > maxRecord {
		return nil, fmt.Errorf("kubelet's record %s has %d bytes; the limit is %d", file, info.Size(), maxRecord)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("kubelet's record: %w", err)
	}
	record, err := parseRecord(data)
	if err != nil {
		return nil, fmt.Errorf("kubelet's record %s: %w", file, err)
	}
	return record, nil
}

// recordCache reads the record again if the file has changed.
type recordCache struct {
	info        fs.FileInfo
	record      Record
	loggedError string // the last error in the log
}

func (c *recordCache) read(file string) (Record, error) {
	info, err := os.Stat(file)
	if err == nil && c.info != nil && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) && c.info.Size() == info.Size() {
		return c.record, nil
	}
	c.info, c.record = nil, nil
	record, err := ReadRecord(file)
	if err != nil {
		return nil, err
	}
	c.info, c.record = info, record
	return record, nil
}

// requirements holds the resources of a container or pod in the form of the API.
type requirements struct {
	Limits   map[string]string `json:"limits"`
	Requests map[string]string `json:"requests"`
}

// parseRecord reads the format of kubelet 1.34 and later (entries) and of 1.33
// (allocationEntries). It ignores the checksum, which covers Go's representation of the
// kubelet's types.
func parseRecord(data []byte) (Record, error) {
	var file struct {
		Data string `json:"data"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var pods struct {
		Entries map[string]struct {
			ContainerResources map[string]requirements
			PodLevelResources  *requirements
		} `json:"entries"`
		Older map[string]map[string]requirements `json:"allocationEntries"`
	}
	if err := json.Unmarshal([]byte(file.Data), &pods); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	record := make(Record, len(pods.Entries)+len(pods.Older))
	for uid, containers := range pods.Older {
		record[uid] = Asked{Containers: requests(containers)}
	}
	for uid, pod := range pods.Entries {
		asked := Asked{Containers: requests(pod.ContainerResources)}
		if pod.PodLevelResources != nil {
			asked.Milli = pod.PodLevelResources.request().Milli
		}
		record[uid] = asked
	}
	return record, nil
}

func requests(all map[string]requirements) map[string]Request {
	out := make(map[string]Request, len(all))
	for name, r := range all {
		out[name] = r.request()
	}
	return out
}

// request returns the requests that the scheduler counts. An invalid quantity counts as zero: the
// kubelet has admitted the pod, so this parser is wrong.
func (r requirements) request() Request {
	var out Request
	for name, text := range r.Requests {
		milli, err := quantity.Milli(text)
		switch {
		case err != nil:
		case name == "cpu":
			out.Milli = milli
		case strings.Contains(name, "/"):
			if out.Extended == nil {
				out.Extended = make(map[string]int64)
			}
			out.Extended[name] = milli / 1000
		}
	}
	return out
}
