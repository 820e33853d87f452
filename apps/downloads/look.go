package downloads

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

//go:embed pages
var assets embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"shade":   shade,
	"verdict": verdictShade,
	"ago": func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return max(0, time.Since(*t).Round(time.Second)).String()
	},
	"clock":   clock,
	"number":  number,
	"percent": percent,
}).ParseFS(assets, "pages/*.html"))

func render(name string, content any) ([]byte, error) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, content); err != nil {
		return nil, fmt.Errorf("render the page: %w", err)
	}
	return b.Bytes(), nil
}

// shade returns the CSS class of a status.
func shade(s ledger.Status) string {
	switch s {
	case ledger.Completed:
		return "good"
	case ledger.Failed, ledger.Error, ledger.Timeout:
		return "bad"
	}
	return "wait"
}

func verdictShade(v ledger.Verdict) string {
	switch v {
	case ledger.Whole:
		return "good"
	case ledger.Partial, ledger.None:
		return "bad"
	case ledger.Running:
		return "wait"
	}
	return ""
}

// clock returns a stored time to the second.
func clock(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return stamp
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// number writes a number with separators.
func number(v any) string {
	digits := fmt.Sprint(v)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// percent returns how much of a whole a part is, rounded down.
func percent(part, whole any) int {
	p, _ := strconv.ParseInt(fmt.Sprint(part), 10, 64)
	w, _ := strconv.ParseInt(fmt.Sprint(whole), 10, 64)
	if w <= 0 {
		return 0
	}
	return int(max(0, min(100, 100*p/w)))
}

// frame is what every page has.
type frame struct {
	Title, Date, Today, Month string
	Poller                    bool
}

func (s *System) frame(title, date string) frame {
	return frame{Title: title, Date: date, Today: s.today(), Month: date[:7], Poller: s.Keeper != nil}
}

// look is the content of the page of a day.
type look struct {
	frame
	Previous, Next string
	Counts         []statusCount // of all batches
	Batches        []BatchLine
	Files          []FileLine // the files of the last batch, and those of others that have not completed, unfinished first
	More           int        // number of files that are not shown
}

type statusCount struct {
	Status ledger.Status
	Files  int
}

// maxShown is the maximum of files on a page.
const maxShown = 100

// look reads a day: a query for its batches, and one for the files of each.
func (s *System) look(ctx context.Context, date string) (look, error) {
	day, _ := time.Parse(time.DateOnly, date)
	l := look{frame: s.frame("Downloads of "+date, date), Previous: day.AddDate(0, 0, -1).Format(time.DateOnly), Next: day.AddDate(0, 0, 1).Format(time.DateOnly)}
	counts, err := s.counts.get(ctx)
	if err != nil {
		return l, err
	}
	for _, status := range ledger.JobStatuses {
		if n, ok := counts.Files[status]; ok {
			l.Counts = append(l.Counts, statusCount{status, n})
		}
	}
	if l.Batches, err = Day(ctx, s.Jobs, s.Batches, date, "", true); err != nil {
		return l, err
	}
	slices.Reverse(l.Batches)
	running := false
	var files []FileLine
	seen := make(map[string]bool)
	for i, b := range l.Batches {
		if b.Status == ledger.Initiated || b.Status == ledger.Queued {
			running = true
			if s.Keeper != nil {
				if err := s.Keeper.Adopt(ctx, b.BatchID); err != nil {
					return l, err
				}
			}
		}
		for _, f := range b.Files { // all batches of a day expect its files, if they got a list
			if !seen[f.FileID] && (i == 0 || f.Status != ledger.Completed) {
				files = append(files, f)
			}
			seen[f.FileID] = true
		}
		l.Batches[i].Files = nil
	}
	l.show(files)
	s.shownRunning.Store(0)
	if running {
		s.shownRunning.Store(time.Now().UnixNano())
	}
	return l, nil
}

var order = map[ledger.Status]int{ledger.Error: 0, ledger.Failed: 1, ledger.Downloading: 2, ledger.Available: 3, ledger.Completed: 4}

// show keeps the most relevant files.
func (l *look) show(files []FileLine) {
	slices.SortStableFunc(files, func(a, b FileLine) int { return order[a.Status] - order[b.Status] })
	l.Files = files
	if len(files) > maxShown {
		l.Files, l.More = files[:maxShown], len(files)-maxShown
	}
}

// monthLook is the content of the page of a month.
type monthLook struct {
	frame
	Previous, Next string
	Days           []ledger.Day
	Summary        string
	Bad            bool
}

func (s *System) month(first time.Time, days []ledger.Day) monthLook {
	date := first.Format(time.DateOnly)
	if today := s.today(); today[:7] == date[:7] {
		date = today
	}
	l := monthLook{frame: s.frame("Downloads of "+date[:7], date), Previous: first.AddDate(0, -1, 0).Format("2006-01"), Next: first.AddDate(0, 1, 0).Format("2006-01"), Days: days}
	var expected, received, whole, bad int
	for _, d := range days {
		expected, received = expected+d.Expected, received+d.Received
		switch d.Verdict {
		case ledger.Whole:
			whole++
		case ledger.Partial, ledger.None:
			bad++
		}
	}
	l.Bad = bad > 0
	l.Summary = fmt.Sprintf("%s of %s expected files received; %d days complete, %d not", number(received), number(expected), whole, bad)
	return l
}

// fileLook is the content of the page of a file.
type fileLook struct {
	frame
	File   FileLine
	Fields [][2]string
}

func (s *System) file(j *ledger.Job) fileLook {
	l := LineOf(j)
	date := j.DownloadDate
	if ledger.CheckDate(date) != nil {
		date = s.today()
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Format("2006-01-02 15:04:05 UTC")
	}
	f := fileLook{frame: s.frame(j.FileID, date), File: l}
	for _, field := range [][2]string{
		{"batch", j.BatchID}, {"in this status since", at(l.Since)}, {"last message", at(moment(j.SentAt))}, {"last heartbeat", at(l.Heartbeat)},
		{"received", number(l.Received) + " bytes"}, {"size", number(j.Size) + " bytes"}, {"SHA-256", fmt.Sprintf("%x", j.SHA256)},
		{"object", j.Object()}, {"tries", strconv.Itoa(j.Tries)}, {"claim", j.Claim}, {"created", clock(j.CreatedAt)}, {"completed", clock(j.CompletedAt)},
		{"expires", at(moment(j.TTL * 1000))},
	} {
		if field[1] != "" && field[1] != "0" && field[1] != "0 bytes" {
			f.Fields = append(f.Fields, field)
		}
	}
	return f
}
