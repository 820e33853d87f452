package dax

import (
	"math"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The last argument of an operation on items is a map of options, or null. The numbers 1 and 5
// (the names and values of expressions), 12 and 18 exist, but clients do not send them.
const (
	optionProjection        = 0
	optionConsistentRead    = 2
	optionConsumedCapacity  = 3
	optionCondition         = 4
	optionCollectionMetrics = 6
	optionReturnValues      = 7
	optionUpdate            = 8
	optionStartKey          = 9
	optionFilter            = 10
	optionIndexName         = 11
	optionLimit             = 13
	optionForward           = 14
	optionSelect            = 15
	optionSegment           = 16
	optionTotalSegments     = 17
	optionToken             = 19
)

// optionSet is a set of the options that a method has.
type optionSet uint32

func optionsOf(numbers ...int) (s optionSet) {
	for _, n := range numbers {
		s |= 1 << n
	}
	return s
}

func (s optionSet) has(n int64) bool { return n >= 0 && n < 32 && s&(1<<n) != 0 }

// options are the options of a request.
type options struct {
	consistent        bool
	consumedCapacity  *string
	collectionMetrics *string
	returnValues      *string
	startKey          []byte
	indexName         *string
	limit             *int32
	forward           *bool
	selects           *string
	segment           *int32
	totalSegments     *int32
	token             *string

	compiled *api.Compiled // nil without an expression
}

// The words of the options whose values are numbers.
var (
	consumedCapacityWords  = []string{"NONE", "TOTAL", "INDEXES"}
	collectionMetricsWords = []string{"NONE", "SIZE"}
	returnValuesWords      = []string{1: "NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"}
	selectWords            = []string{1: "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "COUNT", "SPECIFIC_ATTRIBUTES"}
)

// options reads the options, of which a method has some.
func (r *requestReader) options(known optionSet) (*options, error) {
	o := &r.given
	if r.Null() {
		return o, nil
	}
	m, err := r.Map()
	if err != nil {
		return nil, err
	}
	for {
		more, err := r.Next(&m)
		if err != nil || !more {
			return o, err
		}
		n, err := r.Int()
		if err != nil {
			return nil, err
		}
		if !known.has(n) {
			return nil, apierror.Serialization("%s has no option %d", r.out.Operation, n)
		}
		if err := r.option(o, n); err != nil {
			return nil, err
		}
	}
}

func (r *requestReader) option(o *options, n int64) (err error) {
	switch n {
	case optionProjection, optionCondition, optionUpdate, optionFilter:
		return r.expression(o, n)
	case optionConsistentRead:
		var b *bool
		if b, err = r.flag(); err == nil {
			o.consistent = *b
		}
	case optionConsumedCapacity:
		o.consumedCapacity, err = r.word(consumedCapacityWords)
	case optionCollectionMetrics:
		o.collectionMetrics, err = r.word(collectionMetricsWords)
	case optionReturnValues:
		o.returnValues, err = r.word(returnValuesWords)
	case optionStartKey:
		o.startKey, err = r.Bytes()
	case optionIndexName:
		o.indexName, err = r.byteText()
	case optionLimit:
		o.limit, err = r.int32()
	case optionForward:
		o.forward, err = r.flag()
	case optionSelect:
		o.selects, err = r.word(selectWords)
		if err == nil && r.lenient && *o.selects == selectWords[1] {
			o.selects = nil
		}
	case optionSegment:
		o.segment, err = r.int32()
	case optionTotalSegments:
		o.totalSegments, err = r.int32()
	case optionToken:
		var text []byte
		if text, err = r.Text(); err == nil {
			o.token = new(string(text))
		}
	}
	return err
}

// expression reads an option that is an expression.
func (r *requestReader) expression(o *options, n int64) error {
	b, err := r.Bytes()
	if err != nil {
		return err
	}
	c := o.expressions()
	switch n {
	case optionProjection:
		c.Projection, err = readProjection(b)
	case optionUpdate:
		c.Update, err = readUpdate(b)
	case optionCondition:
		c.Condition, err = conditionOf(b, expr.ConditionExpression)
	case optionFilter:
		c.Filter, err = conditionOf(b, expr.FilterExpression)
	}
	return err
}

func (o *options) expressions() *api.Compiled {
	if o.compiled == nil {
		o.compiled = new(api.Compiled)
	}
	return o.compiled
}

// projection returns the paths of the projection, nil if there is none.
func (o *options) projection() []item.Path {
	if o.compiled == nil {
		return nil
	}
	return o.compiled.Projection
}

func conditionOf(b []byte, kind expr.Kind) (*expr.Condition, error) {
	root, err := readCondition(b, kind)
	if err != nil {
		return nil, err
	}
	return expr.NewCondition(root), nil
}

// flag reads a boolean, or a number that stands for one.
func (r *requestReader) flag() (*bool, error) {
	switch r.Kind() {
	case cbor.False, cbor.True:
		b, err := r.Bool()
		return &b, err
	}
	n, err := r.Int()
	if err == nil && n != 0 && n != 1 {
		err = cbor.ErrRange
	}
	return new(n == 1), err
}

// word reads the number of a word.
func (r *requestReader) word(words []string) (*string, error) {
	n, err := r.Int()
	if err != nil {
		return nil, err
	}
	if n < 0 || n >= int64(len(words)) || words[n] == "" {
		return nil, cbor.ErrRange
	}
	return new(words[n]), nil
}

func (r *requestReader) int32() (*int32, error) {
	n, err := r.Int()
	if err != nil {
		return nil, err
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return nil, cbor.ErrRange
	}
	return new(int32(n)), nil
}
