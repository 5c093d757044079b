package manifest

import (
	"encoding/json"
	"testing"
)

func TestAmounts(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"limits":{"cpu":"1e-999999999"}}`:               false,
		`{"a":[{"requests":{"example.com/x":"2E+100"}}]}`: false,
		`{"emptyDir":{"sizeLimit":"1e400"}}`:              false,
		`{"limits":{"cpu":"1e3","memory":"2Gi"},"annotations":{"commit":"12e4567"},"env":[{"value":"7e123"}]}`: true,
	} {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if err := amounts(v); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
