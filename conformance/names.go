package conformance

import (
	"regexp"
	"strings"
	"sync"
)

// names adds a run's prefix to the names of the tables that a transcript
// creates, and removes it again. ARNs get the server's region and account.
type names struct {
	prefix string
	tables map[string]bool
	owner  string // region:account, once a reply has shown it
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

// out converts a transcript's text to the text that is sent.
func (n *names) out(text string) string {
	text = strings.ReplaceAll(text, ":"+ownerHere+":", ":"+n.owner+":")
	return word().ReplaceAllStringFunc(text, func(w string) string {
		if n.tables[strings.TrimRight(w, ".")] {
			return n.prefix + w
		}
		return w
	})
}

// in converts the text of a server to a transcript's text.
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
