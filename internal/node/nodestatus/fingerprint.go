package nodestatus

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// fingerprint identifies the pods of the node. A scheduler compares it with its own, to learn
// whether the object includes the pods that it counts. It equals version v001 of
// github.com/k8stopologyawareschedwg/podfingerprint: XXH64 (little endian) over the sorted
// hashes of the names, each seeded with the hash of the namespace.
func fingerprint(pods []PodName) string {
	hashes := make([]uint64, 0, len(pods))
	for _, p := range pods {
		h := xxhash.NewWithSeed(xxhash.Sum64String(p.Namespace))
		_, _ = h.WriteString(p.Name) // never fails
		hashes = append(hashes, h.Sum64())
	}
	slices.Sort(hashes)
	all := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		all = binary.LittleEndian.AppendUint64(all, h)
	}
	return "pfp0v001" + hex.EncodeToString(binary.BigEndian.AppendUint64(nil, xxhash.Sum64(all)))
}
