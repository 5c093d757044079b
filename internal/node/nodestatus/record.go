package nodestatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
)

// RecordFile is the kubelet's record of what it has admitted, in its state directory:
// from 1.33 on, unless in-place resizes are switched off
// (kubernetes pkg/kubelet/allocation).
const RecordFile = "allocated_pods_state"

// maxRecord bounds the file: 500 pods of 20 containers make about 2 MiB.
const maxRecord = 64 << 20

// maxMilli bounds each amount, so that sums do not overflow.
const maxMilli = 1 << 40

// Record is what pods asked for when the kubelet admitted or last resized them, by UID.
type Record map[string]Asked

// Asked is what a pod asks for.
type Asked struct {
	// Milli is the CPU request of the pod itself (spec.resources); 0 where it has none.
	Milli int64
	// Containers are those that run as long as the pod does, by name: init
	// containers that end are not in the kubelet's record.
	Containers map[string]Request
}

// Request is what a container asks for.
type Request struct {
	// Milli is the CPU request in thousandths.
	Milli int64
	// Extended are the requests of resources with a domain, in their own unit.
	Extended map[string]int64
}

// ReadRecord reads the kubelet's record. It is nil, without an error, where there is
// none. The kubelet replaces the file as a whole, so it is never half written.
func ReadRecord(file string) (Record, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("kubelet's record: %w", err)
	}
	if info.Size() > maxRecord {
		return nil, fmt.Errorf("kubelet's record %s is %d bytes long; the limit is %d", file, info.Size(), maxRecord)
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

// recordCache reads the record again when the file has changed.
type recordCache struct {
	was    fs.FileInfo
	record Record
	told   string // the error that was told last
}

func (c *recordCache) read(file string) (Record, error) {
	info, err := os.Stat(file)
	if err == nil && c.was != nil && os.SameFile(c.was, info) && c.was.ModTime().Equal(info.ModTime()) && c.was.Size() == info.Size() {
		return c.record, nil
	}
	c.was, c.record = nil, nil
	record, err := ReadRecord(file)
	if err != nil {
		return nil, err
	}
	c.was, c.record = info, record
	return record, nil
}

// requirements are a container's or a pod's resources as the API writes them.
type requirements struct {
	Limits   map[string]string `json:"limits"`
	Requests map[string]string `json:"requests"`
}

// parseRecord reads the form of kubelet 1.34 and later (entries), and that of 1.33
// (allocationEntries). The checksum in the file is over Go's rendering of the
// kubelet's types and cannot be checked here.
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

// request is what the scheduler counts. The API server has filled in requests where
// there are limits only. What is no quantity counts for nothing: the kubelet admitted
// the pod, so the fault is here.
func (r requirements) request() Request {
	var out Request
	for name, text := range r.Requests {
		milli, err := parseMilli(text)
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

// parseMilli reads a quantity (apimachinery resource.Quantity) in thousandths, rounded
// up as the scheduler does, and bounded by maxMilli*1000.
func parseMilli(s string) (int64, error) {
	at := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("+-.0123456789", r) })
	number, suffix := s, ""
	if at >= 0 {
		number, suffix = s[:at], s[at:]
	}
	factor, known := quantityFactor(suffix)
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || value < 0 {
		return 0, fmt.Errorf("%q is not a quantity", s)
	}
	milli := value * factor * 1000
	if whole := math.Round(milli); math.Abs(milli-whole) <= 1e-9*max(whole, 1) {
		milli = whole // 0.1 is no binary fraction
	}
	return int64(min(math.Ceil(milli), maxMilli*1000)), nil
}

func quantityFactor(suffix string) (float64, bool) {
	for i, s := range []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E"} {
		if s == suffix {
			return math.Pow10(3 * (i - 3)), true
		}
	}
	for i, s := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if s == suffix {
			return math.Pow(1024, float64(i+1)), true
		}
	}
	if suffix == "" || suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, false
	}
	n, err := strconv.Atoi(suffix[1:])
	return math.Pow10(n), err == nil
}
