package audit

import "encoding/json"

// Version is the version of CloudTrail's format that records follow.
const Version = "1.11"

// Record is one request, with the field names of CloudTrail. It has no contents of items.
type Record struct {
	EventVersion        string          `json:"eventVersion"`
	UserIdentity        *Identity       `json:"userIdentity,omitempty"`
	EventTime           string          `json:"eventTime"` // RFC 3339, UTC
	EventSource         string          `json:"eventSource"`
	EventName           string          `json:"eventName"`
	AWSRegion           string          `json:"awsRegion,omitempty"`
	SourceIPAddress     string          `json:"sourceIPAddress,omitempty"`
	UserAgent           string          `json:"userAgent,omitempty"`
	ErrorCode           string          `json:"errorCode,omitempty"`
	ErrorMessage        string          `json:"errorMessage,omitempty"`
	RequestParameters   json.RawMessage `json:"requestParameters,omitempty"`
	AdditionalEventData map[string]any  `json:"additionalEventData,omitempty"`
	RequestID           string          `json:"requestID,omitempty"`
	EventID             string          `json:"eventID,omitempty"`
	ReadOnly            *bool           `json:"readOnly,omitempty"`
	Resources           []Resource      `json:"resources,omitempty"`
	EventType           string          `json:"eventType"`
	ManagementEvent     *bool           `json:"managementEvent,omitempty"`
	RecipientAccountID  string          `json:"recipientAccountId,omitempty"`
	EventCategory       string          `json:"eventCategory,omitempty"` // Data or Management
	TLSDetails          *TLSDetails     `json:"tlsDetails,omitempty"`
}

// Identity is who has sent a request.
type Identity struct {
	Type        string `json:"type"` // IAMUser, AssumedRole, Root, or Unverified without keys
	PrincipalID string `json:"principalId,omitempty"`
	ARN         string `json:"arn,omitempty"`
	AccountID   string `json:"accountId,omitempty"`
	AccessKeyID string `json:"accessKeyId,omitempty"`
	UserName    string `json:"userName,omitempty"`
}

// Resource is a table, an index or a stream that a request names.
type Resource struct {
	AccountID string `json:"accountId,omitempty"`
	Type      string `json:"type,omitempty"`
	ARN       string `json:"ARN"`
}

// TLSDetails are those of the connection.
type TLSDetails struct {
	Version string `json:"tlsVersion,omitempty"`
	Cipher  string `json:"cipherSuite,omitempty"`
	Host    string `json:"clientProvidedHostHeader,omitempty"`
}

// cut returns a record that is not too large, so that no client can prevent that its request
// is written down.
func (r *Record) cut() *Record {
	short := *r
	short.RequestParameters = cutParameters(r.RequestParameters)
	short.Resources = short.Resources[:min(len(short.Resources), 10)]
	short.TLSDetails = nil
	for _, text := range []*string{&short.UserAgent, &short.ErrorMessage, &short.SourceIPAddress, &short.AWSRegion, &short.EventName, &short.ErrorCode} {
		*text = (*text)[:min(len(*text), 256)]
	}
	return &short
}

// Bounds of the parameters of a record that is not to be too large: of a member, and of all.
const (
	maxMember     = 1 << 10
	maxParameters = maxRecord / 4
)

// cutParameters omits large members: with one of them, nobody can hide what the others are. If the
// others are too many, all are omitted.
func cutParameters(all json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(all, &members) == nil {
		for name, value := range members {
			if len(value) > maxMember {
				members[name] = json.RawMessage(`"too large"`)
			}
		}
		if text, err := json.Marshal(members); err == nil && len(text) <= maxParameters {
			return text
		}
	}
	return json.RawMessage(`{"omitted":"too large"}`)
}
