package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
)

// readConfig reads a YAML file. Its members are named after flags, which
// readConfig sets unless the command line has set them; the member triggers is
// returned. Errors contain the line and the column, but no values, which may be
// secrets.
func readConfig(path string, cmd *cobra.Command) ([]stator.Trigger, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read --config: %w", err)
	}
	c := &config{path: path, cmd: cmd}
	members, err := c.members(text)
	if err != nil {
		return nil, err
	}
	var triggers []stator.Trigger
	seen := make(map[string]bool)
	for _, m := range members {
		name := m.Key.GetToken().Value
		seen[name] = true
		switch {
		case name == "triggers":
			triggers, err = c.triggers(m.Value)
		case seen["data"] && seen["in-memory"]:
			err = c.fault(m.Key, errors.New("data and in-memory cannot be combined"))
		default:
			err = c.setFlag(name, m)
		}
		if err != nil {
			return nil, err
		}
	}
	return triggers, nil
}

// config is a configuration file that is being read.
type config struct {
	path string
	cmd  *cobra.Command
}

// members are the top-level members of the file, in order.
func (c *config) members(text []byte) ([]*ast.MappingValueNode, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, c.reword(err)
	}
	if len(file.Docs) > 1 {
		return nil, c.fault(file.Docs[1].Body, errors.New("a second document is not allowed"))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	switch body := file.Docs[0].Body.(type) {
	case *ast.MappingNode:
		return body.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{body}, nil
	case *ast.CommentGroupNode, *ast.NullNode:
		return nil, nil
	}
	return nil, c.fault(file.Docs[0].Body, errors.New("the file must be a mapping of names to values"))
}

// excludes maps a member to the flag that overrides it.
var excludes = map[string]string{"data": "in-memory", "in-memory": "data"}

func (c *config) setFlag(name string, m *ast.MappingValueNode) error {
	flags := c.cmd.Flags()
	flag := flags.Lookup(name)
	if flag == nil || name == "config" || name == "help" {
		return c.fault(m.Key, fmt.Errorf("%s is neither a flag of serve nor triggers", name))
	}
	values := []ast.Node{m.Value}
	if list, ok := m.Value.(*ast.SequenceNode); ok && flag.Value.Type() == "stringArray" {
		values = list.Values // the flag can be repeated
	}
	overridden := flags.Changed(name) || flags.Changed(excludes[name])
	for _, v := range values {
		value, ok := v.(ast.ScalarNode)
		if !ok || value.Type() == ast.NullType {
			return c.fault(v, fmt.Errorf("%s must have one value", name))
		}
		if overridden {
			continue // by the command line; the parser rejects a member that occurs twice
		}
		err := flags.Set(name, value.GetToken().Value)
		if errors.Is(err, errNegative) {
			return c.fault(v, fmt.Errorf("%s %w", name, errNegative))
		}
		if err != nil {
			return c.fault(v, fmt.Errorf("%s must be a %s", name, flag.Value.Type()))
		}
	}
	return nil
}

// triggers decodes the list of triggers and checks each of them.
func (c *config) triggers(node ast.Node) ([]stator.Trigger, error) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return nil, c.fault(node, errors.New("triggers must be a list"))
	}
	var found []stator.Trigger
	for _, entry := range list.Values {
		var t stator.Trigger
		if err := yaml.NodeToValue(entry, &t, yaml.Strict(), yaml.CustomUnmarshaler(readPattern)); err != nil {
			return nil, c.reword(err)
		}
		if err := t.Check(); err != nil {
			return nil, c.fault(memberOf(entry, err), err)
		}
		found = append(found, t)
	}
	return found, nil
}

// readPattern decodes a filter, either the text that AWS uses or YAML.
func readPattern(p *stator.TriggerPattern, text []byte) error {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	if json.Unmarshal(asJSON, (*string)(p)) != nil {
		*p = stator.TriggerPattern(bytes.TrimSpace(asJSON))
	}
	return nil
}

// memberOf is the node that a fault refers to, or the whole trigger.
func memberOf(entry ast.Node, err error) ast.Node {
	var fault *stator.TriggerFault
	if !errors.As(err, &fault) {
		return entry
	}
	path, err := yaml.PathString("$." + fault.Member)
	if err != nil {
		return entry
	}
	if node, err := path.FilterNode(entry); err == nil && node != nil {
		return node
	}
	return entry
}

// fault adds the position in the file to an error.
func (c *config) fault(at ast.Node, err error) error {
	return c.faultAt(at.GetToken(), err.Error())
}

// reword turns an error of the YAML library into a usage error.
func (c *config) reword(err error) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return usageError{fmt.Errorf("%s: %w", c.path, err)}
	}
	return c.faultAt(syntax.GetToken(), syntax.GetMessage())
}

func (c *config) faultAt(at *token.Token, message string) error {
	if at == nil || at.Position == nil {
		return usageError{fmt.Errorf("%s: %s", c.path, message)}
	}
	return usageError{fmt.Errorf("%s:%d:%d: %s", c.path, at.Position.Line, at.Position.Column, message)}
}
