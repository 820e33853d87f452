package server

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/server/door"
)

// Audit writes all requests of the API and for reports down. It is called before OnlyHosts and before the
// first request.
func (h *Handler) Audit(l *audit.Log) {
	h.auditLog = l
	h.Expose(l.Metrics)
}

// How much of what a client sends is written down.
const (
	maxAgent     = 512
	maxHost      = 255
	maxAccessKey = 128
	minSecret    = 16 // what is shorter is a name, such as test
)

// audit writes a request down. It says of an error why access was denied, and of others their
// code only: their messages may have values of items.
func (h *Handler) audit(ctx context.Context, of *apiRequest, r *door.Request, a *door.Reply) {
	defer func() {
		if p := recover(); p != nil { // the reply is right, and the request is in the log
			h.logPanic(r, a, p)
			h.auditLog.Record(&audit.Record{EventVersion: audit.Version, EventTime: of.arrived.UTC().Format(time.RFC3339), EventName: of.operation, RequestID: string(a.ID[:]), EventType: "AwsApiCall"})
		}
	}()
	record := h.newRecord(of, r, a, eventSource(r.Header("X-Amz-Target")))
	var audited ops.Audited
	if of.decoded {
		audited = h.service.Audit(ops.WithCaller(ctx, ops.Caller{Region: of.signer.Region}), of.request)
		record.RequestParameters, record.ReadOnly = audited.Parameters, &audited.ReadOnly
	}
	for _, arn := range audited.Resources {
		record.Resources = append(record.Resources, audit.Resource{Type: resourceType(arn), ARN: arn})
	}
	if audited.Data {
		record.EventCategory = "Data"
	}
	management := !audited.Data
	record.ManagementEvent = &management
	h.auditLog.Record(record)
}

// auditOther writes a request down that is no operation of DynamoDB: to CloudWatch, or for a
// report. It reads, unless it is a DELETE.
func (h *Handler) auditOther(of *apiRequest, r *door.Request, a *door.Reply, source string) {
	record := h.newRecord(of, r, a, source)
	readOnly, management := r.Method != http.MethodDelete, true
	record.ReadOnly, record.ManagementEvent = &readOnly, &management
	h.auditLog.Record(record)
}

// newRecord returns the record of a request, without what the operation says about it.
func (h *Handler) newRecord(of *apiRequest, r *door.Request, a *door.Reply, source string) *audit.Record {
	agent := r.Header("User-Agent")
	record := &audit.Record{
		EventVersion: audit.Version, EventTime: of.arrived.UTC().Format(time.RFC3339), EventSource: source, EventName: of.operation[strings.LastIndexByte(of.operation, '.')+1:],
		AWSRegion: of.signer.Region, SourceIPAddress: r.Remote, UserAgent: string(agent[:min(len(agent), maxAgent)]),
		UserIdentity: h.auditedIdentity(of, r), ErrorCode: of.code, RequestID: string(a.ID[:]), EventID: newEventID(),
		EventType: "AwsApiCall", EventCategory: "Management",
	}
	if of.code == "AccessDeniedException" {
		record.ErrorMessage = of.message
	}
	if h.fork != "" {
		record.AdditionalEventData = map[string]any{"fork": h.fork}
	}
	if a.Status == 0 {
		record.ErrorCode = "Disconnected"
	}
	if r.Secure {
		record.TLSDetails = tlsDetails(r)
	}
	return record
}

// tlsDetails returns what is written down of a connection with TLS.
func tlsDetails(r *door.Request) *audit.TLSDetails {
	d := &audit.TLSDetails{Host: r.Host[:min(len(r.Host), maxHost)]}
	if r.TLS.Version != 0 {
		d.Version = strings.Replace(tls.VersionName(r.TLS.Version), " ", "v", 1) // as CloudTrail: TLSv1.3
		d.Cipher = tls.CipherSuiteName(r.TLS.Cipher)
	}
	return d
}

// auditedIdentity returns who has sent a request. If signatures are not verified, or this one
// was not right, that is who the request says.
func (h *Handler) auditedIdentity(of *apiRequest, r *door.Request) *audit.Identity {
	accessKey := of.signer.AccessKey
	if len(accessKey) == 0 {
		accessKey = auth.ReadAccessKey(r.Header, r.Query)
	}
	id := &audit.Identity{Type: "Unverified", AccessKeyID: h.auditedAccessKey(accessKey)}
	p, err := policy.NewPrincipal(of.signer.Principal, "")
	if h.verifier == nil || err != nil {
		return id
	}
	id.Type, id.ARN, id.AccountID, id.PrincipalID = [...]string{"IAMUser", "AssumedRole", "Root"}[p.Kind], p.ARN, p.Account, string(accessKey)
	if p.Kind == policy.User {
		id.UserName = p.Name
	}
	return id
}

// auditedAccessKey returns an access key that a client has sent, or nothing if that may be a secret, sent
// by a client that has confused the two: the server does not have it, and it is neither short nor of the
// form of access keys.
func (h *Handler) auditedAccessKey(accessKey []byte) string {
	if h.verifier != nil && h.verifier.Keys().Find(accessKey) != nil || len(accessKey) < minSecret || keys.HasForm(string(accessKey)) {
		return string(accessKey)
	}
	return ""
}

// Services as CloudTrail names them, and our own.
const (
	sourceOwn         = "stator"
	sourceDynamoDB    = "dynamodb.amazonaws.com"
	sourceAutoScaling = "autoscaling.amazonaws.com"
	sourceDAX         = "dax.amazonaws.com"
	sourceCloudWatch  = "monitoring.amazonaws.com"
)

// eventSource returns the service of an X-Amz-Target, as CloudTrail names it.
func eventSource(target []byte) string {
	switch service, _, _ := strings.Cut(string(target), "."); service {
	case "Stator":
		return sourceOwn
	case "AnyScaleFrontendService":
		return sourceAutoScaling
	case "DAX", "AmazonDAXV3":
		return sourceDAX
	}
	return sourceDynamoDB
}

// resourceType returns the type of a resource, as CloudTrail names it.
func resourceType(arn string) string {
	if strings.Contains(arn, ":cache/") {
		return "AWS::DAX::Cluster"
	}
	if strings.Contains(arn, "/stream/") {
		return "AWS::DynamoDB::Stream"
	}
	return "AWS::DynamoDB::Table"
}

// newEventID returns a random UUID. It need not be secret.
func newEventID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32()) //nolint:gosec // it need not be secret
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}
