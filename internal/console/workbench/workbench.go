// Package workbench answers the requests of the console about designs: documents of models, what
// another traffic costs and heats, which requests belong to which access pattern, and bills.
//
// It needs no endpoint: what it compares is part of the request.
package workbench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/doc"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/model/heat"
	"github.com/stator-db/stator/internal/model/prove"
	"github.com/stator-db/stator/internal/workload"
)

// Target is the prefix of X-Amz-Target of its operations.
const Target = console.WorkbenchTarget

// Bounds of the work of a request.
const (
	maxModel     = 1 << 20 // bytes of the text of a model
	mostAtOnce   = 2       // requests that are computed at a time
	mostForecast = 30 * 60 // seconds
	mostRuns     = 150_000 // that a forecast simulates one by one
)

// Bench answers requests.
type Bench struct {
	file  string        // of a model; empty for none
	slots chan struct{} // of requests that are computed
}

// New returns a Bench that has a model in a file, which is read whenever it is asked for; empty
// for none.
func New(file string) *Bench { return &Bench{file: file, slots: make(chan struct{}, mostAtOnce)} }

// operations holds the operations by their names. They change nothing.
var operations = map[string]func(*Bench, []byte) (any, error){
	"GetModel":       (*Bench).getModel,
	"DescribeModel":  answered((*Bench).describeModel),
	"GetForecast":    answered((*Bench).getForecast),
	"GetDrift":       answered((*Bench).getDrift),
	"GetBill":        answered((*Bench).getBill),
	"GetPatternBill": answered((*Bench).getPatternBill),
}

// action is what policies must allow for all that has to do with models.
const action = "stator:GetModel"

// Action returns the action that policies must allow for a request. A bill without a model needs no
// permission: it is the numbers of the request, times prices that AWS has published.
func (*Bench) Action(target string) string {
	if target == Target+"GetBill" {
		return ""
	}
	return action
}

// answered decodes the body of a request.
func answered[In, Out any](f func(*Bench, *In) (*Out, error)) func(*Bench, []byte) (any, error) {
	return func(b *Bench, body []byte) (any, error) {
		in := new(In)
		if err := json.Unmarshal(body, in); err != nil {
			return nil, &apierror.Error{Code: "SerializationException", Status: http.StatusBadRequest, Message: "The request cannot be read: " + err.Error()}
		}
		return f(b, in)
	}
}

// Do answers a request. target is as in X-Amz-Target.
func (b *Bench) Do(done <-chan struct{}, target string, body []byte) (any, error) {
	operation := operations[strings.TrimPrefix(target, Target)]
	if operation == nil {
		return nil, apierror.UnknownOperation()
	}
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-done:
		return nil, errors.New("the page is gone")
	}
	return operation(b, body)
}

func invalid(format string, args ...any) error { return apierror.Validation(format, args...) }

// Design is a model as a person edits it, with another traffic.
type Design struct {
	Name  string // of the file, for faults
	Text  string
	Times float64           // see model.Traffic
	Rates map[string]string // see model.Traffic
}

// parse returns the model, without the other traffic.
func (d *Design) parse() (*model.Model, error) {
	if len(d.Text) > maxModel {
		return nil, invalid("The model has %d bytes, but must have at most %d", len(d.Text), maxModel)
	}
	return model.Parse(d.Name, []byte(d.Text))
}

// model returns the model with the other traffic.
func (d *Design) model() (*model.Model, error) {
	m, err := d.parse()
	var syntax *model.SyntaxError
	if errors.As(err, &syntax) {
		return nil, invalid("The model has %d faults: line %d: %s", len(syntax.Faults), syntax.Faults[0].Position.Line, syntax.Faults[0].Error())
	}
	if err == nil {
		if err = m.SetTraffic(model.Traffic{Times: d.Times, Rates: d.Rates}); err != nil {
			err = invalid("%s", err)
		}
	}
	return m, err
}

// givenModel is the model that the console was started with.
type givenModel struct {
	Given bool
	Name  string `json:",omitempty"`
	Text  string `json:",omitempty"`
}

func (b *Bench) getModel([]byte) (any, error) {
	if b.file == "" {
		return givenModel{}, nil
	}
	text, err := readModel(b.file)
	if err != nil {
		return nil, &apierror.Error{Code: "ModelUnreadable", Status: http.StatusInternalServerError, Message: fmt.Sprintf("The model that the console was started with cannot be read: %v", err)}
	}
	return givenModel{true, filepath.Base(b.file), string(text)}, nil
}

func readModel(file string) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	text, err := io.ReadAll(io.LimitReader(in, maxModel+1))
	if err == nil && len(text) > maxModel {
		err = fmt.Errorf("%s has more than %d bytes", file, maxModel)
	}
	return text, err
}

// Document is a model as the page shows it.
type Document struct {
	Syntax []*model.Fault `json:",omitempty"` // if the text is no model; then there is nothing else

	Page     *doc.Page   `json:",omitempty"`
	Cost     *model.Cost `json:",omitempty"`
	Heat     []*model.Partition
	Baseline *Baseline `json:",omitempty"` // with the traffic of the model itself
	Entities []string  `json:",omitempty"` // of all tables, in the order of the model
}

// Baseline is a model with its own traffic.
type Baseline struct {
	Dollars, Read, Write float64
	Hottest              float64            // the share of the limit of the busiest partition
	Rates                map[string]string  // by pattern
	PatternDollars       map[string]float64 // by pattern
}

// mostHeat is how many partitions a document has.
const mostHeat = 20

func (b *Bench) describeModel(d *Design) (*Document, error) {
	m, err := d.parse()
	var syntax *model.SyntaxError
	if errors.As(err, &syntax) {
		return &Document{Syntax: syntax.Faults}, nil
	}
	if err != nil {
		return nil, err
	}
	prices := model.DefaultPrices()
	own := m.Check(prices)
	base := &Baseline{Dollars: own.Cost.Dollars, Read: own.Cost.Read, Write: own.Cost.Write, Rates: make(map[string]string), PatternDollars: make(map[string]float64)}
	if len(own.Heat) > 0 {
		base.Hottest = own.Heat[0].Share
	}
	for i, p := range m.Patterns {
		base.Rates[p.Name], base.PatternDollars[p.Name] = p.Rate.String(), own.Cost.Patterns[i].Dollars
	}
	if m, err = d.model(); err != nil {
		return nil, err
	}
	page, changed := doc.New(m, prices), m.Check(prices)
	reply := &Document{Page: page, Cost: changed.Cost, Heat: changed.Heat[:min(mostHeat, len(changed.Heat))], Baseline: base}
	for _, e := range m.Entities {
		reply.Entities = append(reply.Entities, e.Name)
	}
	return reply, nil
}

// ForecastRequest asks for what a design's traffic meets.
type ForecastRequest struct {
	Design
	Seconds int
	Peak    float64 // a multiple of the peak rates; defaults to 1
	Seed    uint64
}

func (b *Bench) getForecast(in *ForecastRequest) (*heat.Forecast, error) {
	if in.Seconds < 1 || in.Seconds > mostForecast {
		return nil, invalid("The forecast is of %d seconds, but must be of 1 to %d", in.Seconds, mostForecast)
	}
	if in.Peak < 0 || in.Peak > 1000 || math.IsNaN(in.Peak) {
		return nil, invalid("The multiple of the peak is %v, but must be from 0 to 1000", in.Peak)
	}
	m, err := in.model()
	if err != nil {
		return nil, err
	}
	times := in.Peak
	if times == 0 {
		times = 1
	}
	f, err := heat.Run(m, heat.Options{Rate: prove.Rate{Times: times}, For: time.Duration(in.Seconds) * time.Second, Seed: in.Seed, Most: mostRuns})
	if err != nil {
		return nil, invalid("%s", err)
	}
	return f, nil
}

// DriftRequest asks which requests belong to which access pattern.
type DriftRequest struct {
	Design
	Traffic workload.Report
}

func (b *Bench) getDrift(in *DriftRequest) (*drift.Report, error) {
	m, err := in.model()
	if err != nil {
		return nil, err
	}
	if err := checkShapes(&in.Traffic); err != nil {
		return nil, err
	}
	return drift.Join(m, in.Traffic), nil
}

// checkShapes returns the fault of traffic with more shapes than a server counts.
func checkShapes(traffic *workload.Report) error {
	if n := len(traffic.Shapes); n > workload.MaxShapes {
		return invalid("There are %d shapes, but must be at most %d", n, workload.MaxShapes)
	}
	return nil
}
