package demo

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, []stage{{"make", 20 * time.Second}, {"boot", 5 * time.Second}, {"run", 10 * time.Second}})
		p.next()
		time.Sleep(40 * time.Second)
		p.next()
		time.Sleep(4 * time.Second)
		p.detail("%d of 2", 1)
		time.Sleep(29 * time.Second)
		p.next()
		p.end()
		want := `    0 s  make; about 35s left
   15 s    still working; about 20s left
   30 s    still working; about 15s left
   40 s  boot; about 30s left
   44 s    1 of 2
   59 s    still working; about 20s left
   73 s  run; about 29s left
`
		if d := cmp.Diff(want, out.String()); d != "" {
			t.Errorf("progress (-want +got):\n%s", d)
		}
	})
}
