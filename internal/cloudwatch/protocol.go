package cloudwatch

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/stator-db/stator/internal/apierror"
)

// Protocol is how a request and its reply are encoded. Older clients use Query, newer
// ones CBOR.
type Protocol int

// The protocols of CloudWatch.
const (
	JSON Protocol = iota
	Query
	CBOR
)

// Target is the prefix of X-Amz-Target of JSON requests, and Path that of the path of
// CBOR requests; the operation follows.
const (
	Target = "GraniteServiceVersion20100801."
	Path   = "/service/GraniteServiceVersion20100801/operation/"
)

// MaxBody is the largest body of a request, in bytes.
const MaxBody = 64 << 10

// Reply is a reply over HTTP.
type Reply struct {
	Status      int
	ContentType string
	Body        []byte
	QueryError  string // for the header X-Amzn-Query-Error; empty if there was none
	ErrorCode   string // in all protocols; empty if there was no error
}

// Do answers a request. In the query protocol the body names the operation.
func (s *Service) Do(p Protocol, operation string, body []byte, requestID string) Reply {
	in, err := p.decode(body)
	if err != nil {
		err = &Fault{"MalformedInput", "SerializationException", "The request cannot be read: " + err.Error()}
	}
	if p == Query && err == nil {
		operation, _ = in.text("Action")
	}
	var out replyStruct
	if err == nil {
		if do := operations[operation]; do != nil {
			out, err = do(s, in)
		} else {
			err = &Fault{"InvalidAction", "UnknownOperationException", fmt.Sprintf("The action %s is not supported. These are: GetMetricData, GetMetricStatistics, ListMetrics, GetInsightRuleReport.", operation)}
		}
	}
	if err != nil {
		return p.fault(err, requestID)
	}
	return p.reply(operation, out, requestID)
}

// Operation returns the operation that a request asks for, which the query protocol has in
// the body.
func (p Protocol) Operation(named string, body []byte) string {
	if p != Query {
		return named
	}
	in, err := p.decode(body)
	if err != nil {
		return named
	}
	operation, _ := in.text("Action")
	return operation
}

// IsOperation reports whether there is an operation of this name.
func IsOperation(name string) bool { return operations[name] != nil }

func (p Protocol) decode(body []byte) (structure, error) {
	var decoded any
	switch p {
	case Query:
		return parseQuery(string(body))
	case CBOR:
		if len(body) == 0 {
			return structure{}, nil
		}
		v, err := cbor.Decode(body)
		if err != nil {
			return nil, err
		}
		decoded = fromCBOR(v)
	default:
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&decoded); err != nil {
			return nil, err
		}
	}
	in, ok := structured(decoded).(structure)
	if !ok {
		return nil, errors.New("it is not a structure")
	}
	return in, nil
}

// maxFields is how many fields a form has at most.
const maxFields = 10_000

// parseQuery parses a form, in which the names of fields are paths: A.member.2.B is the
// member B of the second element of the list A.
func parseQuery(form string) (structure, error) {
	if strings.Count(form, "&") >= maxFields {
		return nil, fmt.Errorf("it has more than %d fields", maxFields)
	}
	values, err := url.ParseQuery(form)
	if err != nil {
		return nil, err
	}
	root := make(map[string]any)
	for name, of := range values {
		steps := strings.Split(name, ".")
		if len(steps) > 32 {
			return nil, errors.New("it is nested too deeply")
		}
		at := root
		for _, step := range steps[:len(steps)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				if at[step] != nil {
					return nil, fmt.Errorf("the field %s is given twice", name)
				}
				next = make(map[string]any)
				at[step] = next
			}
			at = next
		}
		last := steps[len(steps)-1]
		if at[last] != nil {
			return nil, fmt.Errorf("the field %s is given twice", name)
		}
		at[last] = of[0]
	}
	in, _ := withLists(root).(structure)
	return in, nil
}

// withLists converts maps, and those with the only member "member" to lists.
func withLists(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if elements, ok := m["member"].(map[string]any); ok && len(m) == 1 {
		numbers := make([]int, 0, len(elements))
		for name := range elements {
			if n, err := strconv.Atoi(name); err == nil {
				numbers = append(numbers, n)
			}
		}
		slices.Sort(numbers)
		l := make(valueList, len(numbers))
		for i, n := range numbers {
			l[i] = withLists(elements[strconv.Itoa(n)])
		}
		return l
	}
	s := make(structure, len(m))
	for name, of := range m {
		s[name] = withLists(of)
	}
	return s
}

// xmlNamespace is that of replies of the query protocol.
const xmlNamespace = "http://monitoring.amazonaws.com/doc/2010-08-01/"

func (p Protocol) reply(operation string, out replyStruct, requestID string) Reply {
	switch p {
	case Query:
		var b bytes.Buffer
		fmt.Fprintf(&b, `<%sResponse xmlns="%s"><%sResult>`, operation, xmlNamespace, operation)
		writeXML(&b, out)
		fmt.Fprintf(&b, `</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>`, operation, requestID, operation)
		return Reply{Status: http.StatusOK, ContentType: "text/xml", Body: b.Bytes()}
	case CBOR:
		return Reply{Status: http.StatusOK, ContentType: "application/cbor", Body: marshalCBOR(out)}
	}
	return Reply{Status: http.StatusOK, ContentType: "application/x-amz-json-1.0", Body: marshalJSON(out)}
}

func (p Protocol) fault(err error, requestID string) Reply {
	fault, ok := errors.AsType[*Fault](err)
	status := http.StatusBadRequest
	switch {
	case !ok:
		fault, status = &Fault{"InternalServiceError", "InternalServiceFault", "The request could not be executed."}, http.StatusInternalServerError
	case strings.HasPrefix(fault.Code, "ResourceNotFound"):
		status = http.StatusNotFound
	}
	return p.failure(fault, status, requestID)
}

// Reject returns the reply to a request that was not executed, in its protocol.
func (p Protocol) Reject(e *apierror.Error, requestID string) Reply {
	fault := &Fault{Code: strings.TrimSuffix(e.Code, "Exception"), Shape: e.Code, Message: e.Message}
	if e.Status >= http.StatusInternalServerError {
		fault.Code, fault.Shape = "InternalServiceError", "InternalServiceFault"
	}
	return p.failure(fault, e.Status, requestID)
}

func (p Protocol) failure(fault *Fault, status int, requestID string) Reply {
	side := "Sender"
	if status >= http.StatusInternalServerError {
		side = "Receiver"
	}
	out := replyStruct{{"__type", "com.amazonaws.cloudwatch#" + fault.Shape}, {"message", fault.Message}}
	r := Reply{Status: status, QueryError: fault.Code + ";" + side, ErrorCode: fault.Shape}
	switch p {
	case Query:
		var b bytes.Buffer
		fmt.Fprintf(&b, `<ErrorResponse xmlns="%s"><Error><Type>%s</Type>`, xmlNamespace, side)
		writeXML(&b, replyStruct{{"Code", fault.Code}, {"Message", fault.Message}})
		fmt.Fprintf(&b, `</Error><RequestId>%s</RequestId></ErrorResponse>`, requestID)
		return Reply{Status: status, ContentType: "text/xml", Body: b.Bytes(), ErrorCode: fault.Shape}
	case CBOR:
		r.ContentType, r.Body = "application/cbor", marshalCBOR(out)
	default:
		r.ContentType, r.Body = "application/x-amz-json-1.0", marshalJSON(out)
	}
	return r
}

func marshalJSON(out replyStruct) []byte {
	text, err := json.Marshal(convert(out, func(v any) any {
		if t, ok := v.(time.Time); ok {
			return t.Unix() // they are whole minutes
		}
		return v
	}))
	if err != nil {
		panic(err) // there are no other types
	}
	return text
}

func marshalCBOR(out replyStruct) []byte {
	return cbor.Encode(toCBOR(convert(out, func(v any) any { return v })))
}

// fromCBOR returns a value as encoding/json would decode it.
func fromCBOR(v cbor.Value) any {
	switch v := v.(type) {
	case cbor.String:
		return string(v)
	case cbor.Bool:
		return bool(v)
	case cbor.List:
		all := make([]any, len(v))
		for i := range v {
			all[i] = fromCBOR(v[i])
		}
		return all
	case cbor.Map:
		all := make(map[string]any, len(v))
		for name, of := range v {
			all[name] = fromCBOR(of)
		}
		return all
	case *cbor.Tag:
		if t, err := cbor.AsTime(v); err == nil {
			return t
		}
		return nil
	}
	if n, err := cbor.AsFloat64(v); err == nil {
		return n
	}
	if n, err := cbor.AsInt64(v); err == nil {
		return n
	}
	return nil
}

// toCBOR encodes what convert returns.
func toCBOR(v any) cbor.Value {
	switch v := v.(type) {
	case string:
		return cbor.String(v)
	case bool:
		return cbor.Bool(v)
	case float64:
		return cbor.Float64(v)
	case int64:
		return cbor.Uint(max(0, v)) // counts
	case time.Time:
		return &cbor.Tag{ID: 1, Value: cbor.Float64(v.Unix())}
	case []any:
		all := make(cbor.List, len(v))
		for i := range v {
			all[i] = toCBOR(v[i])
		}
		return all
	case map[string]any:
		all := make(cbor.Map, len(v))
		for name, of := range v {
			all[name] = toCBOR(of)
		}
		return all
	}
	panic(fmt.Sprintf("a reply has a %T", v))
}

// writeXML writes the members of a structure.
func writeXML(b *bytes.Buffer, out replyStruct) {
	for _, m := range out {
		fmt.Fprintf(b, "<%s>", m.name)
		writeXMLValue(b, m.value)
		fmt.Fprintf(b, "</%s>", m.name)
	}
}

func writeXMLValue(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case replyStruct:
		writeXML(b, v)
	case entries:
		for _, e := range v {
			b.WriteString("<entry>")
			writeXML(b, replyStruct{{"key", e.name}, {"value", e.value}})
			b.WriteString("</entry>")
		}
	case []replyStruct:
		writeXMLList(b, v)
	case []string:
		writeXMLList(b, v)
	case []float64:
		writeXMLList(b, v)
	case []time.Time:
		writeXMLList(b, v)
	case string:
		_ = xml.EscapeText(b, []byte(v)) // a buffer accepts everything
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case time.Time:
		b.WriteString(v.UTC().Format(time.RFC3339))
	default:
		panic(fmt.Sprintf("a reply has a %T", v))
	}
}

func writeXMLList[E any](b *bytes.Buffer, all []E) {
	for _, v := range all {
		b.WriteString("<member>")
		writeXMLValue(b, v)
		b.WriteString("</member>")
	}
}
