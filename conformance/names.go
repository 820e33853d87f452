package conformance

import (
	"regexp"
	"strings"
	"sync"
)

// names puts a run's prefix before the names of the tables that a transcript
// creates, and takes it off again. ARNs get the server's region and account.
type names struct {
	prefix string
	tables map[string]bool
	owner  string // region:account, once a reply has told it
}

const ownerHere = "us-east-1:000000000000"

var (
	created = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"TableName"\s*:\s*"([A-Z][a-zA-Z0-9_.-]{2,150})"`) })
	word    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z0-9_.-]+`) })
	arn     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`arn:aws[a-z-]*:dynamodb:([a-z0-9-]+:[0-9]{12}):`) })
)

func newNames(t *Transcript, prefix string) *names {
	n := &names{prefix: prefix, tables: make(map[string]bool), owner: ownerHere}
	for _, s := range t.Steps {
		if m := created().FindStringSubmatch(s.Body); m != nil && s.Operation == "CreateTable" {
			n.tables[m[1]] = true
		}
	}
	return n
}

// out turns a transcript's text into what is sent.
func (n *names) out(text string) string {
	text = strings.ReplaceAll(text, ":"+ownerHere+":", ":"+n.owner+":")
	return word().ReplaceAllStringFunc(text, func(w string) string {
		if n.tables[strings.TrimRight(w, ".")] {
			return n.prefix + w
		}
		return w
	})
}

// in turns what a server sent into a transcript's text.
func (n *names) in(text string) string {
	if !strings.Contains(text, n.prefix) {
		return text
	}
	if m := arn().FindStringSubmatch(text); m != nil {
		n.owner = m[1]
	}
	text = strings.ReplaceAll(text, ":"+n.owner+":", ":"+ownerHere+":")
	return strings.ReplaceAll(text, n.prefix, "")
}
