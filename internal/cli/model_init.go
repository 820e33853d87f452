package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
)

func modelInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init FILE",
		Short: "Write a first model from the answers to some questions",
		Long: `Ask in the terminal what a system stores and how it is read and written, and write a
model in a new file: one table, with keys and indexes that serve each access pattern.
Answers may also be piped in, one on each line.

  stator model init shop.model.yaml`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return initModel(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// initModel asks the questions, writes the model, and checks it.
func initModel(ctx context.Context, path string, in io.Reader, out, questions io.Writer) error {
	if _, err := os.Lstat(path); err == nil {
		return usageError{fmt.Errorf("%s already exists and would be overwritten; choose another name, or remove it", path)}
	}
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	d, err := newInterview(ctx, in, questions).run(name)
	if err != nil {
		return err
	}
	text := d.text()
	m, err := model.Parse(path, text)
	if err != nil {
		return fmt.Errorf("the answers do not make a model: %w", err)
	}
	if err := writeNew(path, text); err != nil {
		return err
	}
	report := m.Check(model.DefaultPrices())
	if err := printReport(out, path, report, false); err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%s is written and has %s", path, plural(len(report.Faults), "fault"))
	}
	return nil
}

// interview asks questions until the answers describe a design.
type interview struct {
	ctx   context.Context
	lines <-chan string
	out   io.Writer
}

func newInterview(ctx context.Context, in io.Reader, out io.Writer) *interview {
	lines := make(chan string)
	// A read from a terminal cannot be interrupted, so the goroutine may
	// remain until the process ends.
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return &interview{ctx, lines, out}
}

// answer returns the next answer.
func (q *interview) answer() (string, error) {
	select {
	case text, ok := <-q.lines:
		if !ok {
			return "", errNoAnswer
		}
		return strings.TrimSpace(text), nil
	case <-q.ctx.Done():
		return "", errors.New("interrupted; nothing is written")
	}
}

// errNoAnswer is returned when the answers end before the questions.
var errNoAnswer = errors.New("the answers end before the questions; nothing is written")

// ask asks until check accepts the answer. An empty answer is the default.
func (q *interview) ask(question, byDefault string, check func(string) error) (string, error) {
	for {
		fmt.Fprint(q.out, question)
		if byDefault != "" {
			fmt.Fprintf(q.out, " [%s]", byDefault)
		}
		fmt.Fprint(q.out, ": ")
		answer, err := q.answer()
		if err != nil {
			fmt.Fprintln(q.out)
			return "", err
		}
		if answer == "" {
			answer = byDefault
		}
		if err = check(answer); err == nil {
			return answer, nil
		}
		fmt.Fprintf(q.out, "  %v\n", err)
	}
}

// run asks all questions.
func (q *interview) run(name string) (*draft, error) {
	d := new(draft)
	var err error
	if d.name, err = q.ask("Name of the system", name, checkPlainName); err != nil {
		return nil, err
	}
	fmt.Fprintln(q.out, "\nWhat is stored? One kind of item after another; an empty name ends the list.")
	for {
		more, err := q.entity(d)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	fmt.Fprintln(q.out, "\nWhat is read and written? One access pattern after another; an empty name ends the list.")
	for {
		more, err := q.pattern(d)
		if err != nil || !more {
			return d, err
		}
	}
}

// entity asks about one kind of item. It returns false after the last one.
func (q *interview) entity(d *draft) (bool, error) {
	name, err := q.ask("\nKind of item, such as order", "", func(s string) error {
		switch {
		case s == "" && len(d.entities) == 0:
			return errors.New("at least one kind of item is needed")
		case s != "" && d.entity(s) != nil:
			return fmt.Errorf("there is already a kind %s", s)
		case s == "":
			return nil
		}
		return checkPlainName(s)
	})
	if err != nil || name == "" {
		return false, err
	}
	e := &draftEntity{name: name}
	attributes := func(required bool) func(string) error {
		return func(s string) error {
			list, err := parseDraftAttributes(s)
			switch {
			case err != nil:
				return err
			case required && len(list) == 0:
				return errors.New("at least one attribute is needed")
			}
			for _, a := range list {
				if e.attribute(a.name) != nil {
					return fmt.Errorf("there is already an attribute %s", a.name)
				}
				if required && (a.isNumber() || len(a.values) > 0 || !a.inKey()) {
					return fmt.Errorf("%s must be text to be a part of a key", a.name)
				}
			}
			return nil
		}
	}
	answer, err := q.ask(fmt.Sprintf("What identifies one %s? What it belongs to first, such as customerId orderId", name), name+"Id", attributes(true))
	if err != nil {
		return false, err
	}
	e.ids, _ = parseDraftAttributes(answer)
	if answer, err = q.ask("Its other attributes, such as total:N status=OPEN|PAID placedAt:iso8601", "", attributes(false)); err != nil {
		return false, err
	}
	e.others, _ = parseDraftAttributes(answer)
	if e.count, err = q.ask("How many exist", "1000", matching(draftCount, "a number")); err != nil {
		return false, err
	}
	if e.growth, err = q.ask("How many are added, such as 100/day", "none", orNone(matching(draftRate, "a rate such as 100/day"))); err != nil {
		return false, err
	}
	d.entities = append(d.entities, e)
	return true, nil
}

// The kinds of access pattern.
var draftKinds = []string{"get", "list", "create", "replace", "update", "delete"}

// pattern asks about one access pattern. It returns false after the last one.
func (q *interview) pattern(d *draft) (bool, error) {
	name, err := q.ask("\nAccess pattern, such as orders of a customer", "", func(s string) error {
		switch {
		case s == "" && len(d.patterns) == 0:
			return errors.New("at least one access pattern is needed")
		case slices.ContainsFunc(d.patterns, func(p *draftPattern) bool { return p.name == s }):
			return fmt.Errorf("there is already a pattern %s", s)
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }):
			return errors.New("a name has no control characters")
		}
		return nil
	})
	if err != nil || name == "" {
		return false, err
	}
	p := &draftPattern{name: name}
	if p.kind, err = q.ask("What it does: "+strings.Join(draftKinds, ", "), "get", oneOf(draftKinds)); err != nil {
		return false, err
	}
	var names []string
	for _, e := range d.entities {
		names = append(names, e.name)
	}
	entity := names[0]
	if len(names) > 1 {
		if entity, err = q.ask("With which kind of item: "+strings.Join(names, ", "), names[0], oneOf(names)); err != nil {
			return false, err
		}
	}
	p.entity = d.entity(entity)
	switch p.kind {
	case "list":
		err = q.list(p)
	case "update":
		p.set, err = q.attributesOf(p.entity, "Which attributes it changes", "", func(a *draftAttribute) error {
			if slices.Contains(p.entity.ids, a) {
				return fmt.Errorf("%s identifies the item and cannot change", a.name)
			}
			return nil
		}, true)
	}
	if err != nil {
		return false, err
	}
	if p.rate, err = q.ask("How often, such as 10/s", "1/s", matching(draftRate, "a rate such as 10/s")); err != nil {
		return false, err
	}
	if p.peak, err = q.ask("How often at the peak", "the same", orDefault("the same", matching(draftRate, "a rate such as 50/s"))); err != nil {
		return false, err
	}
	d.patterns = append(d.patterns, p)
	return true, nil
}

// list asks what a list is selected and sorted by.
func (q *interview) list(p *draftPattern) (err error) {
	inKey := func(a *draftAttribute) error {
		if !a.inKey() {
			return fmt.Errorf("%s cannot be a part of a key", a.name)
		}
		return nil
	}
	if p.given, err = q.attributesOf(p.entity, "By which attributes it finds the items; none for all", p.entity.ids[0].name, inKey, false); err != nil {
		return err
	}
	order, err := q.attributesOf(p.entity, "Sorted by which attribute", "none", inKey, false)
	if err != nil {
		return err
	}
	if len(order) > 0 {
		p.order = order[0]
	}
	p.matches, err = q.ask("How many items it returns", "10", matching(draftCount, "a number"))
	return err
}

// attributesOf asks for attributes of an entity, separated by blanks.
func (q *interview) attributesOf(e *draftEntity, question, byDefault string, check func(*draftAttribute) error, required bool) (list []*draftAttribute, err error) {
	_, err = q.ask(question, byDefault, func(s string) error {
		list = nil
		if s == "none" {
			s = ""
		}
		for name := range strings.FieldsSeq(s) {
			a := e.attribute(name)
			if a == nil {
				return fmt.Errorf("%s has no attribute %s", e.name, name)
			}
			if err := check(a); err != nil {
				return err
			}
			list = append(list, a)
		}
		if required && len(list) == 0 {
			return errors.New("at least one attribute is needed")
		}
		return nil
	})
	return list, err
}

var (
	draftName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,59}$`)
	draftCount = regexp.MustCompile(`^[1-9][0-9_]{0,14}$`)
	draftRate  = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?/(s|min|h|day|week|month|year)$`)
)

func checkPlainName(s string) error {
	if !draftName.MatchString(s) {
		return fmt.Errorf("%q is not a name of letters, digits, - and _", s)
	}
	return nil
}

func matching(form *regexp.Regexp, what string) func(string) error {
	return func(s string) error {
		if !form.MatchString(s) {
			return fmt.Errorf("%q is not %s", s, what)
		}
		return nil
	}
}

func orNone(check func(string) error) func(string) error { return orDefault("none", check) }

func orDefault(text string, check func(string) error) func(string) error {
	return func(s string) error {
		if s == text {
			return nil
		}
		return check(s)
	}
}

func oneOf(known []string) func(string) error {
	return func(s string) error {
		if !slices.Contains(known, s) {
			return fmt.Errorf("%q is not one of %s", s, strings.Join(known, ", "))
		}
		return nil
	}
}
