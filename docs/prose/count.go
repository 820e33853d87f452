package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// phrase is a word, or a few, that this program counts.
type phrase struct {
	name    string
	target  string // per 1,000 lines of comments; empty if there is none
	pattern *regexp.Regexp
	// unlike matches uses that are legitimate.
	unlike *regexp.Regexp
}

var phrases = []phrase{
	{name: "told", target: "< 1", pattern: word(`told`), unlike: word(`told\s+(?:them\s+|it\s+)?apart`)},
	{name: "who", target: "< 0.3", pattern: subjectlessWho},
	{name: "anew", target: "0", pattern: word(`anew`)},
	{name: "beside", pattern: word(`beside`)},
	{name: "unless set", pattern: word(`unless\s+(?:set|given)`)},
	{name: "so many", pattern: word(`so\s+(?:many|much|often)`)},
	{name: "behind", pattern: word(`behind`)},
}

func word(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b` + pattern + `\b`) }

// subjectlessWho matches a relative clause that lacks a noun: it begins a sentence
// or a clause, or follows a word that cannot be a noun. An indirect question
// ("reports who signed it") does not match.
var subjectlessWho = regexp.MustCompile(`(?i)(?:^\s*|[.,:;!?()"]\s+|\(|` +
	`\b(?:and|or|but|nor|that|than|then|if|when|while|where|whether|because|since|for|of|to|by|from|with|without|` +
	`as|in|on|at|after|before|is|are|was|were|not|only|even|so|until|unless|although|though|also|else)\s+)` +
	`(?:who|whoever|whom|whomever)\b`)

// count is how often each phrase is used in some lines of comments.
type count struct {
	Lines int            `json:"comment_lines"`
	Uses  map[string]int `json:"uses"`
}

func newCount() *count { return &count{Uses: make(map[string]int)} }

func (c *count) add(other *count) {
	c.Lines += other.Lines
	for name, n := range other.Uses {
		c.Uses[name] += n
	}
}

func (c *count) perThousand(p phrase) float64 {
	if c.Lines == 0 {
		return 0
	}
	return 1000 * float64(c.Uses[p.name]) / float64(c.Lines)
}

// report has the counts of each directory.
type report struct {
	Code  map[string]*count `json:"code"`
	Tests map[string]*count `json:"tests"`
	uses  []use
}

// use is one use of a phrase.
type use struct {
	file   string
	line   int
	phrase string
	text   string
}

// read counts in all Go files below a directory.
func read(root string) (*report, error) {
	r := &report{Code: make(map[string]*count), Tests: make(map[string]*count)}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		return r.readFile(root, file)
	})
	return r, err
}

func (r *report) readFile(root, file string) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(root, file)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	byDir := r.Code
	if strings.HasSuffix(name, "_test.go") {
		byDir = r.Tests
	}
	dir := filepath.ToSlash(filepath.Dir(name))
	if byDir[dir] == nil {
		byDir[dir] = newCount()
	}
	for _, group := range parsed.Comments {
		r.uses = append(r.uses, byDir[dir].group(name, group, files)...)
	}
	return nil
}

// group counts in one comment, which may have several lines. A phrase may begin
// on one line and end on the next.
func (c *count) group(file string, group *ast.CommentGroup, files *token.FileSet) (uses []use) {
	text := strings.TrimRight(group.Text(), "\n") // without directives
	if text == "" {
		return nil
	}
	c.Lines += 1 + strings.Count(text, "\n")
	line := files.Position(group.Pos()).Line
	for _, p := range phrases {
		for _, at := range p.find(text) {
			c.Uses[p.name]++
			above := strings.Count(text[:at], "\n")
			uses = append(uses, use{file, line + above, p.name, strings.Split(text, "\n")[above]})
		}
	}
	return uses
}

// find returns where each use of the phrase ends.
func (p phrase) find(text string) (ends []int) {
	for _, at := range p.pattern.FindAllStringIndex(text, -1) {
		if p.unlike != nil {
			if legitimate := p.unlike.FindStringIndex(text[at[0]:]); legitimate != nil && legitimate[0] == 0 {
				continue
			}
		}
		ends = append(ends, at[1])
	}
	return ends
}
