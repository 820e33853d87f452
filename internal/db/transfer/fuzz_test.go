package transfer

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Reading a file of any content ends, and returns valid items only. Such an item is
// unchanged after it is written in either format and read again.
func FuzzReaders(f *testing.F) {
	for _, text := range []string{
		`{"Item":{"id":{"S":"a"},"n":{"N":"1"}}}`, "id,n\na,1\n\"b\"\"\",2\n", `$ion_1_0 {Item:{id:"a\n",n:1.5d3,l:[true,null.int,{{AA==}}],s:$dynamodb_NS::[1,2]}}`,
		`{Item:{a:'''x''' '''y''','b c':"\ud83d\ude00"}} // end`, "{Item:{a:$dynamodb_SS::[" + strings.Repeat("[", 99),
	} {
		for format := range byte(3) {
			f.Add(format, text)
		}
	}
	f.Fuzz(func(t *testing.T, format byte, text string) {
		table := thingsTable("Things")
		in := &importReader{job: &Job{Format: []string{JSON, Ion, CSV}[format%3], Import: &Import{}}, table: &table}
		r := in.open(strings.NewReader(text))
		for range len(text) + 2 {
			it, err := r.next()
			if errors.As(err, new(*badItem)) {
				continue
			}
			if err != nil {
				return
			}
			if err := item.Check(it); err != nil {
				t.Fatalf("%q gives %x: %v", text, it, err)
			}
			for format, line := range fullLines {
				again := &importReader{job: &Job{Format: format, Import: &Import{}}, table: &table}
				from := again.open(bytes.NewReader(line(nil, it)))
				if back, err := from.next(); err != nil || !bytes.Equal(back, it) {
					t.Fatalf("%s is read as %s, %v", line(nil, it), item.Map(back), err)
				}
				if _, err := from.next(); !errors.Is(err, io.EOF) {
					t.Fatalf("after the item: %v, want %v", err, io.EOF)
				}
			}
		}
		t.Fatalf("reading %q does not end", text)
	})
}
