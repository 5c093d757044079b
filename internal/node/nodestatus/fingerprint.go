package nodestatus

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// fingerprint tells a scheduler for which pods of the node an object was made: its own
// count is as good as that as long as it knows the same ones. It is what
// github.com/k8stopologyawareschedwg/podfingerprint (version v001) makes of them,
// whatever their order: the hashes of the names, each with the hash of its namespace as
// seed, sorted and hashed again (XXH64, little endian).
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
