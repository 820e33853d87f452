// Package deploytest checks the files by which an application is deployed: that the commands
// of its compose file are commands of the application, and that its alert rules and its
// board ask for metrics that it has.
package deploytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// Check checks the folder deploy of the application in a folder.
func Check(t *testing.T, application string, root func() *cobra.Command) {
	t.Helper()
	for _, fault := range Faults(application, root) {
		t.Error(fault)
	}
}

// Faults returns what is wrong with the folder deploy of an application.
func Faults(application string, root func() *cobra.Command) (faults []error) {
	deploy := filepath.Join(application, "deploy")
	faults = composeFaults(filepath.Join(deploy, "compose.yaml"), root)
	known, err := metricsOf(application)
	if err != nil {
		return append(faults, err)
	}
	for file, read := range map[string]func([]byte) ([]string, error){"alerts.yaml": alertExpressions, "board.json": boardExpressions} {
		text, err := os.ReadFile(filepath.Join(deploy, file))
		if err != nil {
			faults = append(faults, err)
			continue
		}
		expressions, err := read(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
			continue
		}
		if len(expressions) == 0 {
			faults = append(faults, fmt.Errorf("%s asks for no metric", file))
		}
		faults = append(faults, metricFaults(file, root().Name(), expressions, known)...)
	}
	return faults
}

// compose is what is checked of a compose file.
type compose struct {
	Services map[string]struct {
		Image   string
		Command []string
		Build   struct{ Args map[string]string }
		Volumes []string
	}
}

// composeFaults checks that the commands of services with the application's image have
// the form of its command line, and that mounted files exist, apart from keys.
func composeFaults(file string, root func() *cobra.Command) (faults []error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return []error{err}
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	own := 0
	for name, s := range c.Services {
		for _, volume := range s.Volumes {
			// Keys are created by those who deploy.
			if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, ".") && !strings.HasSuffix(source, ".pem") {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), source)); err != nil {
					faults = append(faults, fmt.Errorf("%s: service %s: %w", file, name, err))
				}
			}
		}
		if s.Image != "stator/"+root().Name() {
			continue
		}
		own++
		if err := commandFault(root(), s.Command); err != nil {
			faults = append(faults, fmt.Errorf("%s: service %s: %w", file, name, err))
		}
	}
	if own == 0 {
		faults = append(faults, fmt.Errorf("%s has no service with the image stator/%s", file, root().Name()))
	}
	return faults
}

// commandFault parses a command line without executing it.
func commandFault(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c == root {
		return errors.New("it names no command")
	}
	if err := c.ParseFlags(rest); err != nil {
		return fmt.Errorf("%s: %w", c.CommandPath(), err)
	}
	return c.ValidateArgs(c.Flags().Args())
}

func alertExpressions(text []byte) (all []string, err error) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return nil, err
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				return nil, fmt.Errorf("alert %s has no summary, or no action", r.Alert)
			}
			all = append(all, r.Expr)
		}
	}
	return all, nil
}

func boardExpressions(text []byte) (all []string, err error) {
	var board struct {
		Title, UID string
		Panels     []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, err
	}
	if board.Title == "" || board.UID == "" {
		return nil, errors.New("the board has no title, or no uid")
	}
	for _, p := range board.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			return nil, fmt.Errorf("panel %q has no title, or shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all, nil
}

// metricFaults finds the metrics of an application in expressions that it does not have.
func metricFaults(file, application string, expressions, known []string) (faults []error) {
	metric := regexp.MustCompile(`\b` + application + `_[a-z0-9_]+`)
	for _, e := range expressions {
		for _, name := range metric.FindAllString(e, -1) {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if cut, ok := strings.CutSuffix(name, suffix); ok && slices.Contains(known, cut) {
					base = cut
				}
			}
			if !slices.Contains(known, base) {
				faults = append(faults, fmt.Errorf("%s asks for %s, which the application does not have", file, name))
			}
		}
	}
	return faults
}

// metricsOf returns the names of the metrics that the source of an application declares.
func metricsOf(application string) (names []string, err error) {
	prefix := filepath.Base(application)
	if absolute, err := filepath.Abs(application); err == nil {
		prefix = filepath.Base(absolute)
	}
	err = filepath.WalkDir(application, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		usesPrometheus := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.Contains(i.Path.Value, "client_golang/prometheus") })
		if !usesPrometheus {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if name, err := strconv.Unquote(text.Value); err == nil {
				// Some sources add the prefix to each name.
				names = append(names, name, prefix+"_"+name)
			}
			return true
		})
		return nil
	})
	return names, err
}
