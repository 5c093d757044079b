package control

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzDecodeMoves(f *testing.F) {
	f.Add([]byte(`[{"podUID":"u","container":"du","from":"2,4","to":"2-3"}]`))
	f.Add([]byte(`[{"container":"du.service","from":"0-8191","to":"2-3"},{}]`))
	f.Add([]byte(`[null] []`))
	f.Add([]byte("[{\"container\":\"\xff\",\"from\":\"1\",\"to\":\"2\"}]"))
	f.Fuzz(func(t *testing.T, body []byte) {
		moves, err := decodeMoves(body)
		if err != nil {
			return
		}
		for _, m := range moves {
			if m.Container == "" || m.From.IsEmpty() || m.To.IsEmpty() {
				t.Errorf("incomplete move %+v", m)
			}
		}
		again, err := json.Marshal(moves)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeMoves(again)
		if diff := cmp.Diff(moves, back); err != nil || diff != "" {
			t.Errorf("decoded again: %v (-first +second):\n%s", err, diff)
		}
	})
}
