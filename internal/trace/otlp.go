package trace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
)

// The encoding is that of ExportTraceServiceRequest in opentelemetry-proto, version 1, as JSON:
// ids are hexadecimal, 64-bit integers are strings, enumerations are numbers.

const (
	kindServer   = 2 // SPAN_KIND_SERVER
	statusFailed = 2 // STATUS_CODE_ERROR

	scope = "github.com/stator-db/stator"
)

// resourceJSON returns the attributes of the process.
func resourceJSON(version string) []byte {
	var instance [8]byte
	_, _ = rand.Read(instance[:]) // it does not fail
	all := []spanAttribute{{"service.name", "stator"}, {"service.instance.id", hex.EncodeToString(instance[:])}}
	if version != "" {
		all = append(all, spanAttribute{"service.version", version})
	}
	return appendAttributes(nil, all)
}

// appendRequest appends a request with spans of one process.
func appendRequest(dst, resource []byte, spans []*Span) []byte {
	dst = append(dst, `{"resourceSpans":[{"resource":{"attributes":`...)
	dst = append(dst, resource...)
	dst = append(dst, `},"scopeSpans":[{"scope":{"name":"`+scope+`"},"spans":[`...)
	for i, s := range spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.append(dst)
	}
	return append(dst, "]}]}]}"...)
}

func (s *Span) append(dst []byte) []byte {
	dst = append(dst, `{"traceId":"`...)
	dst = hex.AppendEncode(dst, s.trace[:])
	dst = append(dst, `","spanId":"`...)
	dst = hex.AppendEncode(dst, s.id[:])
	if s.parent != [8]byte{} {
		dst = append(dst, `","parentSpanId":"`...)
		dst = hex.AppendEncode(dst, s.parent[:])
	}
	dst = append(dst, '"')
	if s.state != "" {
		dst = appendText(append(dst, `,"traceState":`...), s.state)
	}
	dst = appendText(append(dst, `,"name":`...), s.Name)
	dst = append(dst, `,"kind":`...)
	dst = strconv.AppendInt(dst, kindServer, 10)
	dst = append(dst, `,"startTimeUnixNano":"`...)
	dst = strconv.AppendInt(dst, s.begun.UnixNano(), 10)
	dst = append(dst, `","endTimeUnixNano":"`...)
	dst = strconv.AppendInt(dst, s.ended.UnixNano(), 10)
	dst = appendAttributes(append(dst, `","attributes":`...), s.attributes)
	if s.failure != "" {
		dst = append(dst, `,"status":{"code":`...)
		dst = strconv.AppendInt(dst, statusFailed, 10)
		dst = append(appendText(append(dst, `,"message":`...), s.failure), '}')
	}
	return append(dst, '}')
}

func appendAttributes(dst []byte, all []spanAttribute) []byte {
	dst = append(dst, '[')
	for i, a := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(dst, `{"key":`...), a.key)
		dst = append(dst, `,"value":`...)
		switch v := a.value.(type) {
		case string:
			dst = appendStringValue(dst, v)
		case int64:
			dst = append(strconv.AppendInt(append(dst, `{"intValue":"`...), v, 10), `"}`...)
		case []string:
			dst = append(dst, `{"arrayValue":{"values":[`...)
			for j, text := range v {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = appendStringValue(dst, text)
			}
			dst = append(dst, `]}}`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendStringValue(dst []byte, text string) []byte {
	return append(appendText(append(dst, `{"stringValue":`...), text), '}')
}

// appendText appends a string as JSON.
func appendText(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return append(dst, quoted...)
}
