package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/past"
	"github.com/stator-db/stator/internal/protocol/effect"
)

// call is one call of a tool. Its requests go through send.
type call struct {
	server  *Server
	request *sdk.CallToolRequest
	tool    *tool

	fork  madeFork // of which the requests are; zero for the server's own database
	table string   // for the log
	units float64

	lastID string // of the last reply of the endpoint
}

// call runs a tool within its bounds, and writes it to the log.
func (s *Server) call(ctx context.Context, t *tool, req *sdk.CallToolRequest, run func(context.Context, *call) (any, error)) *sdk.CallToolResult {
	begun := s.Now()
	c := &call{server: s, request: req, tool: t}
	limit := callTime
	if t.long {
		limit = longCallTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var answer any
	var err error
	select {
	case s.slots <- struct{}{}:
		answer, err = run(ctx, c)
		<-s.slots
	case <-ctx.Done():
		err = fmt.Errorf("%d calls are in progress: try again later", maxCalls)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("the call was ended after %v: ask for less\n%w", limit, err)
	}
	attributes := []any{"client", clientName(req), "tool", t.name, "table", c.table, "units", c.units, "ms", s.Now().Sub(begun).Milliseconds()}
	if c.fork.name != "" {
		attributes = append(attributes, "fork", c.fork.name)
	}
	if err != nil {
		s.Log.Warn("tool failed", append(attributes, "error", shorten(err.Error(), 300))...)
		result := new(sdk.CallToolResult)
		result.SetError(errors.New(shorten(err.Error(), maxAnswerSize/8)))
		return result
	}
	s.Log.Info("tool", attributes...)
	if asked, ok := answer.(*sdk.CallToolResult); ok {
		return asked
	}
	text, err := encode(answer)
	if err != nil {
		result := new(sdk.CallToolResult)
		result.SetError(err)
		return result
	}
	return &sdk.CallToolResult{StructuredContent: json.RawMessage(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}
}

// encode encodes an answer. One that is too large becomes the beginning of its text.
func encode(answer any) ([]byte, error) {
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(answer); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	b := bytes.TrimSpace(text.Bytes())
	if len(b) <= maxAnswerSize {
		return b, nil
	}
	for size := maxAnswerSize * 3 / 4; ; size /= 2 {
		short, err := json.Marshal(map[string]any{"truncated": true, "bytes": len(b), "beginning": strings.ToValidUTF8(string(b[:size]), ""),
			"note": "the answer is too large: name one table or pattern, or a smaller limit"})
		if err != nil || len(short) <= maxAnswerSize {
			return short, err
		}
	}
}

// clientName returns the name of the program that has sent a request.
func clientName(req *sdk.CallToolRequest) string {
	if info := req.ClientInfo(); info != nil {
		return shorten(info.Name+" "+info.Version, 80)
	}
	return "unknown"
}

// shorten cuts a text after most bytes.
func shorten(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// decode decodes arguments. Numbers stay as they are written.
func decode(text json.RawMessage, into any, required []string) error {
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	if len(text) > maxArguments {
		return fmt.Errorf("the arguments have %d bytes, but may have %d at most", len(text), maxArguments)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		return fmt.Errorf("the arguments do not fit the tool: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the arguments have more than one value")
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	for _, name := range required {
		if v, ok := given[name]; !ok || string(v) == "null" || string(v) == `""` {
			return fmt.Errorf("the argument %s is missing", name)
		}
	}
	return nil
}

// use sets the table and the fork of a call.
func (c *call) use(table, fork string) error {
	c.table = table
	if fork == "" {
		return nil
	}
	made, ok := c.server.session.find(fork)
	if !ok {
		return fmt.Errorf("there is no fork %q: forks are those that the tool fork has made here", fork)
	}
	c.fork = made
	return nil
}

// on returns a call for requests to a fork.
func (c *call) on(fork madeFork) *call {
	return &call{server: c.server, request: c.request, tool: c.tool, fork: fork}
}

// check refuses requests that are not allowed, by the operation and the body that would be
// sent.
func (s *Server) check(operation string, body []byte, fork string) error {
	need := Write
	switch effect.Of(operation, body) {
	case effect.Nothing:
		return nil
	case effect.Items:
	case effect.Tables:
		need = Tables
	default:
		if operation != "CreateFork" && operation != "DeleteFork" {
			return fmt.Errorf("%s is not for agents: it is no operation that reads, writes items or changes tables; nothing was sent", operation)
		}
		need = Forks
	}
	if s.lists(need) || fork != "" && s.lists(Forks) {
		return nil
	}
	return fmt.Errorf("%s needs the group %s, which is not allowed here; nothing was sent\n        the user can start stator mcp with --allow %s", operation, need, need)
}

// send sends a request of any service to the endpoint or the fork of the call. Operations of
// stator begin with "Stator.".
func (c *call) send(ctx context.Context, operation string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	service, name, ok := strings.Cut(operation, ".")
	if !ok {
		service, name = "", operation
	}
	if err := c.server.check(name, text, c.fork.name); err != nil {
		return nil, err
	}
	e := c.endpoint()
	var reply []byte
	switch {
	case service == "Stator":
		reply, err = e.SendOwn(ctx, name, json.RawMessage(text))
	case service != "":
		return nil, fmt.Errorf("%q is no operation: write its name alone, or Stator. before those that only a stator has", operation)
	case slices.Contains(streamOperations, name):
		reply, err = e.SendStreams(ctx, name, json.RawMessage(text))
	default:
		reply, err = e.Send(ctx, name, json.RawMessage(text))
	}
	if c.fork.name != "" && apierror.IsNoFork(err, c.fork.name) {
		c.server.session.remove(c.fork.name)
	}
	if fault, ok := errors.AsType[*apierror.Error](err); ok && fault.Code == "AccessDeniedException" && c.lastID != "" {
		return nil, fmt.Errorf("%w (request id %s)", err, c.lastID)
	}
	if err == nil {
		c.units += consumed(reply)
	}
	return reply, err
}

var streamOperations = []string{"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"}

// sendOwn sends a request of an operation that only stator has.
func (c *call) sendOwn(ctx context.Context, operation string, body any) ([]byte, error) {
	return c.send(ctx, "Stator."+operation, body)
}

// endpoint returns the endpoint of the call, whose requests are not counted as traffic.
func (c *call) endpoint() *apply.Endpoint {
	e := *c.server.Endpoint
	e.Uncounted = true
	e.Client = idReader{e.Client, &c.lastID}
	if c.fork.name != "" {
		e.URL = c.fork.url
	}
	return &e
}

// idReader reads the ids of requests.
type idReader struct {
	apply.Doer
	last *string
}

func (r idReader) Do(req *http.Request) (*http.Response, error) {
	reply, err := r.Doer.Do(req)
	if err == nil {
		*r.last = reply.Header.Get("X-Amzn-Requestid")
	}
	return reply, err
}

// consumed returns the units in a reply.
func consumed(reply []byte) (units float64) {
	var one struct {
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	if json.Unmarshal(reply, &one) == nil {
		return one.ConsumedCapacity.CapacityUnits
	}
	var several struct {
		ConsumedCapacity []struct{ CapacityUnits float64 }
	}
	if json.Unmarshal(reply, &several) == nil {
		for _, c := range several.ConsumedCapacity {
			units += c.CapacityUnits
		}
	}
	return units
}

// ask sends a request, and decodes the reply.
func (c *call) ask(ctx context.Context, operation string, body, reply any) error {
	return apply.Send(c.send).Ask(ctx, operation, body, reply)
}

// listTables returns the names of all tables.
func (c *call) listTables(ctx context.Context) (names []string, err error) {
	for after := map[string]any{}; ; {
		var page struct {
			TableNames             []string
			LastEvaluatedTableName string
		}
		if err := c.ask(ctx, "ListTables", after, &page); err != nil {
			return nil, fmt.Errorf("cannot list the tables: %w", err)
		}
		names = append(names, page.TableNames...)
		if page.LastEvaluatedTableName == "" {
			return names, nil
		}
		after["ExclusiveStartTableName"] = page.LastEvaluatedTableName
	}
}

// describe describes a table.
func (c *call) describe(ctx context.Context, table string) (*past.Table, error) {
	t, err := past.Describe(ctx, c.send, table)
	if err != nil {
		return nil, fmt.Errorf("cannot describe table %s: %w", table, err)
	}
	return t, nil
}

// read sends a read of the present, or of the past.
func (c *call) read(ctx context.Context, operation string, at time.Time, body map[string]any) ([]byte, error) {
	if at.IsZero() {
		return c.send(ctx, operation, body)
	}
	body["AsOf"] = at.Unix()
	return past.Send(ctx, c.sendOwn, operation+"At", body, func(string) {})
}

func (c *call) parseTime(argument, text string) (time.Time, error) {
	return past.ParseTime(argument, text, c.server.Now())
}
