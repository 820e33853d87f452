// Package ops plans each request and makes its reply: one file per operation,
// one table of all operations.
//
// An operation checks what can be checked without the table, in an order that
// customers see. Package db, which alone reads and writes, decides whether the
// request fits the table and whether the stored item allows it.
package ops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/access"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/db/cache"
	"github.com/stator-db/stator/internal/db/scrub"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/principals"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/workload"
)

// Parts are what a Service is made of. A test may omit Backups if it sends no
// request about backups, Transfers if it needs no buckets, and Scaling if it sends
// no request about auto scaling. Without Source the service cannot have a standby.
type Parts struct {
	DB        *db.DB
	Backups   *backup.Store
	Transfers *transfer.Store
	Scaling   *autoscaling.Store
	Source    *standby.Source
	Cache     *cache.Cache // of requests that ThroughCache marks; nil for none
	Account   string       // in ARNs; twelve digits. It defaults to DefaultAccount

	// Access has the access keys and principals, which requests can change if they are in the
	// database; nil without any.
	Access *access.Store

	// Faults decides which faults are injected into requests; nil for none. DB has to keep the
	// changes of all tables then.
	Faults *inject.Injector

	// DAX returns the port for clients of DAX, which the control plane of DAX shows; nil without
	// one.
	DAX func() DAXPort

	// Triggers returns the triggers of the server, and Scrub its verification in the background; nil
	// without any. They are started after the service.
	Triggers func() Triggers
	Scrub    func() *scrub.Scrub
	// TestClock is the clock of the database, if requests may change it; nil if they may not.
	TestClock *clock.Manual
	// Forks are the forks of the server; nil if it makes none.
	Forks Forks

	// Unencrypted is called when a request asks for the encryption of a table with a KMS key,
	// if the data is not encrypted; nil if it is.
	Unencrypted func(table string)
}

// Service answers requests from a database.
type Service struct {
	DB        *db.DB
	backups   *backup.Store
	transfers *transfer.Store
	scaling   *autoscaling.Store
	source    *standby.Source
	cache     *cache.Cache // may be nil
	account   string       // in ARNs; twelve digits
	dax       func() DAXPort
	forks     Forks            // may be nil
	access    *access.Store    // may be nil
	faults    *inject.Injector // may be nil
	testClock *clock.Manual    // that requests may change; nil if there is none

	triggers func() Triggers     // returns noTriggers without any
	scrub    func() *scrub.Scrub // may return nil

	parameters sync.Mutex // of ApplyDAXParameters

	unencrypted func(table string) // may be nil

	parsed   *expr.Cache
	workload *workload.Recorder

	refresher *refresher // nil without a cache

	documents parsedDocuments // of resource policies
	denials   denials
}

// New makes a service from its parts.
func New(p Parts) *Service {
	s := &Service{
		DB: p.DB, backups: p.Backups, transfers: p.Transfers, scaling: p.Scaling, source: p.Source, cache: p.Cache, account: cmp.Or(p.Account, DefaultAccount), dax: p.DAX,
		access: p.Access, faults: p.Faults, testClock: p.TestClock, forks: p.Forks, unencrypted: p.Unencrypted,
		parsed: expr.NewCache(4096), workload: workload.NewRecorder(p.DB.Now()),
	}
	if s.dax == nil {
		s.dax = func() (none DAXPort) { return none }
	}
	s.triggers = func() Triggers {
		if p.Triggers != nil {
			if running := p.Triggers(); running != nil {
				return running
			}
		}
		return noTriggers{}
	}
	if s.scrub = p.Scrub; s.scrub == nil {
		s.scrub = func() *scrub.Scrub { return nil }
	}
	s.workload.Exists = s.exists
	s.DB.EveryMinute(s.workload.Mark)
	if s.cache != nil {
		s.cache.MeasureIn(s.DB.Meter())
		s.refresher = newRefresher(s.DB)
	}
	return s
}

// exists reports whether a table exists.
func (s *Service) exists(table string) bool {
	_, err := s.DB.Table(table)
	return err == nil
}

// operations holds all operations by their name in X-Amz-Target.
var operations = map[string]*operation{
	"BatchExecuteStatement":           countedByTable((*Service).batchExecuteStatement),
	"BatchGetItem":                    countedByTable((*Service).batchGetItem),
	"BatchWriteItem":                  countedByTable((*Service).batchWriteItem),
	"CreateBackup":                    plain((*Service).createBackup),
	"CreateTable":                     plain((*Service).createTable),
	"DeleteBackup":                    plain((*Service).deleteBackup),
	"DeleteItem":                      enveloped(counted((*Service).deleteItem)),
	"DeleteResourcePolicy":            plain((*Service).deleteResourcePolicy),
	"DeleteTable":                     plain((*Service).deleteTable),
	"DescribeBackup":                  plain((*Service).describeBackup),
	"DescribeContinuousBackups":       plain((*Service).describeContinuousBackups),
	"DescribeContributorInsights":     plain((*Service).describeContributorInsights),
	"DescribeEndpoints":               plain((*Service).describeEndpoints),
	"DescribeExport":                  plain((*Service).describeExport),
	"DescribeImport":                  plain((*Service).describeImport),
	"DescribeLimits":                  plain((*Service).describeLimits),
	"DescribeTable":                   plain((*Service).describeTable),
	"DescribeTableReplicaAutoScaling": plain((*Service).describeTableReplicaAutoScaling),
	"DescribeTimeToLive":              plain((*Service).describeTimeToLive),
	"ExecuteStatement":                counted((*Service).executeStatement),
	"ExecuteTransaction":              countedByTable((*Service).executeTransaction),
	"ExportTableToPointInTime":        plain((*Service).exportTableToPointInTime),
	"GetItem":                         counted((*Service).getItem),
	"GetResourcePolicy":               plain((*Service).getResourcePolicy),
	"ImportTable":                     plain((*Service).importTable),
	"ListBackups":                     plain((*Service).listBackups),
	"ListContributorInsights":         plain((*Service).listContributorInsights),
	"ListExports":                     plain((*Service).listExports),
	"ListImports":                     plain((*Service).listImports),
	"ListTables":                      plain((*Service).listTables),
	"ListTagsOfResource":              plain((*Service).listTagsOfResource),
	"PutItem":                         enveloped(counted((*Service).putItem)),
	"PutResourcePolicy":               plain((*Service).putResourcePolicy),
	"Query":                           enveloped(paged((*Service).query)),
	"RestoreTableFromBackup":          plain((*Service).restoreTableFromBackup),
	"RestoreTableToPointInTime":       plain((*Service).restoreTableToPointInTime),
	"Scan":                            paged((*Service).scan),
	"TagResource":                     plain((*Service).tagResource),
	"TransactGetItems":                countedByTable((*Service).transactGetItems),
	"TransactWriteItems":              countedByTable((*Service).transactWriteItems),
	"UntagResource":                   plain((*Service).untagResource),
	"UpdateContinuousBackups":         plain((*Service).updateContinuousBackups),
	"UpdateContributorInsights":       plain((*Service).updateContributorInsights),
	"UpdateItem":                      enveloped(counted((*Service).updateItem)),
	"UpdateTable":                     plain((*Service).updateTable),
	"UpdateTableReplicaAutoScaling":   plain((*Service).updateTableReplicaAutoScaling),
	"UpdateTimeToLive":                plain((*Service).updateTimeToLive),
}

// streamOperations holds the operations of the second service, DynamoDB
// Streams.
var streamOperations = map[string]*operation{
	"DescribeStream":   plain((*Service).describeStream),
	"GetRecords":       expecting(plain((*Service).getRecords), recordsBytes),
	"GetShardIterator": plain((*Service).getShardIterator),
	"ListStreams":      plain((*Service).listStreams),
}

// ownOperations holds the operations that DynamoDB does not have.
var ownOperations = map[string]*operation{
	"AdvanceClock":       plain((*Service).advanceClock),
	"CreateAccessKey":    plain((*Service).createAccessKey),
	"CreateFork":         plain((*Service).createFork),
	"CreateSnapshot":     plain((*Service).createSnapshot),
	"DeleteAccessKey":    plain((*Service).deleteAccessKey),
	"DeleteFork":         plain((*Service).deleteFork),
	"DeletePrincipal":    plain((*Service).deletePrincipal),
	"DeleteSnapshot":     plain((*Service).deleteSnapshot),
	"DescribeExpiry":     plain((*Service).describeExpiry),
	"ExplainDenial":      plain((*Service).explainDenial),
	"FreezeClock":        plain((*Service).freezeClock),
	"GetClock":           plain((*Service).getClock),
	"GetFaults":          plain((*Service).getFaults),
	"GetHeat":            expecting(plain((*Service).getHeat), heatBytes),
	"GetItemAt":          counted((*Service).getItemAt),
	"GetPrincipal":       plain((*Service).getPrincipal),
	"GetShapes":          plain((*Service).getShapes),
	"ItemHistory":        expecting(counted((*Service).itemHistory), historyBytes),
	"ListAccessKeys":     plain((*Service).listAccessKeys),
	"ListDeadLetters":    expecting(plain((*Service).listDeadLetters), listLettersBytes),
	"ListForks":          plain((*Service).listForks),
	"ListInjectedFaults": plain((*Service).listInjectedFaults),
	"ListJobs":           plain((*Service).listJobs),
	"ListPrincipals":     plain((*Service).listPrincipals),
	"ListSnapshots":      plain((*Service).listSnapshots),
	"ListTriggers":       plain((*Service).listTriggers),
	"PutPrincipal":       plain((*Service).putPrincipal),
	"QueryAt":            enveloped(paged((*Service).queryAt)),
	"ReplayDeadLetters":  expecting(plain((*Service).replayDeadLetters), replayBytes),
	"Rewind":             plain((*Service).rewind),
	"RunClock":           plain((*Service).runClock),
	"ScanAt":             paged((*Service).scanAt),
	"SetClock":           plain((*Service).setClock),
	"SetFaults":          plain((*Service).setFaults),
	"SetThrottling":      plain((*Service).setThrottling),
	"UndoChanges":        expecting(countedByTable((*Service).undoChanges), undoBytes),
}

// autoScalingOperations holds the operations of the third service, Application
// Auto Scaling, for tables and global indexes. Some of them have the names of
// other operations.
var autoScalingOperations = map[string]*operation{
	"DeleteScalingPolicy":       plain((*Service).deleteScalingPolicy),
	"DeleteScheduledAction":     plain((*Service).deleteScheduledAction),
	"DeregisterScalableTarget":  plain((*Service).deregisterScalableTarget),
	"DescribeScalableTargets":   plain((*Service).describeScalableTargets),
	"DescribeScalingActivities": plain((*Service).describeScalingActivities),
	"DescribeScalingPolicies":   plain((*Service).describeScalingPolicies),
	"DescribeScheduledActions":  plain((*Service).describeScheduledActions),
	"ListTagsForResource":       plain((*Service).listTagsForScalableTarget),
	"PutScalingPolicy":          plain((*Service).putScalingPolicy),
	"PutScheduledAction":        plain((*Service).putScheduledAction),
	"RegisterScalableTarget":    plain((*Service).registerScalableTarget),
	"TagResource":               plain((*Service).tagScalableTarget),
	"UntagResource":             plain((*Service).untagScalableTarget),
}

// daxOperations holds the operations of the control plane of DAX. Some of them have the
// names of other operations.
var daxOperations = map[string]*operation{
	"CreateCluster":             plain((*Service).createCluster),
	"CreateParameterGroup":      plain((*Service).createParameterGroup),
	"CreateSubnetGroup":         plain((*Service).createSubnetGroup),
	"DecreaseReplicationFactor": plain((*Service).decreaseReplicationFactor),
	"DeleteCluster":             plain((*Service).deleteCluster),
	"DeleteParameterGroup":      plain((*Service).deleteParameterGroup),
	"DeleteSubnetGroup":         plain((*Service).deleteSubnetGroup),
	"DescribeClusters":          plain((*Service).describeClusters),
	"DescribeDefaultParameters": plain((*Service).describeDefaultParameters),
	"DescribeEvents":            plain((*Service).describeEvents),
	"DescribeParameterGroups":   plain((*Service).describeParameterGroups),
	"DescribeParameters":        plain((*Service).describeParameters),
	"DescribeSubnetGroups":      plain((*Service).describeSubnetGroups),
	"IncreaseReplicationFactor": plain((*Service).increaseReplicationFactor),
	"ListTags":                  plain((*Service).listTags),
	"RebootNode":                plain((*Service).rebootNode),
	"TagResource":               plain((*Service).tagCluster),
	"UntagResource":             plain((*Service).untagCluster),
	"UpdateCluster":             plain((*Service).updateCluster),
	"UpdateParameterGroup":      plain((*Service).updateParameterGroup),
	"UpdateSubnetGroup":         plain((*Service).updateSubnetGroup),
}

// daxPrefix begins the names and targets of the operations of DAX.
const daxPrefix = "AmazonDAXV3."

// IsDAX reports whether an X-Amz-Target is of the control plane of DAX.
func IsDAX(target []byte) bool { return bytes.HasPrefix(target, []byte(daxPrefix)) }

// autoScalingPrefix begins the names and targets of the operations of Application
// Auto Scaling.
const autoScalingPrefix = "AnyScaleFrontendService."

// IsAutoScaling reports whether an X-Amz-Target is of Application Auto Scaling.
func IsAutoScaling(target []byte) bool { return bytes.HasPrefix(target, []byte(autoScalingPrefix)) }

// Known reports whether an operation of this name exists.
func Known(name string) bool { return find(name) != nil }

// find returns the operation of a name, or nil.
func find(name string) *operation { return byName[name] }

// byName holds the operations of all services, so that a request looks up one map only.
var byName = func() map[string]*operation {
	all := maps.Clone(operations)
	maps.Copy(all, streamOperations)
	maps.Copy(all, ownOperations)
	for name, o := range autoScalingOperations {
		all[autoScalingPrefix+name] = o
	}
	for name, o := range daxOperations {
		all[daxPrefix+name] = o
	}
	return all
}()

// Find returns the name of the operation that an X-Amz-Target asks for.
func Find(target []byte) (name string, ok bool) {
	name, ok = targets[string(target)]
	return name, ok
}

var targets = func() map[string]string {
	targets := make(map[string]string)
	for name := range operations {
		targets["DynamoDB_20120810."+name] = name
	}
	for name := range streamOperations {
		targets["DynamoDBStreams_20120810."+name] = name
	}
	for name := range ownOperations {
		targets["Stator."+name] = name
	}
	for name := range autoScalingOperations {
		targets[autoScalingPrefix+name] = autoScalingPrefix + name
	}
	for name := range daxOperations {
		targets[daxPrefix+name] = daxPrefix + name
	}
	return targets
}()

// Request is a decoded request with its operation.
type Request struct {
	*operation
	name string
	in   any // a pointer to a struct of package api
}

// Read decodes the body of a request. Its errors are those of Do.
func Read(name string, body []byte) (Request, error) {
	o := find(name)
	if o == nil {
		return Request{}, apierror.UnknownOperation()
	}
	in, err := o.read(body)
	return Request{o, name, in}, o.envelop(err)
}

// NewRequest makes a request of a pointer to a struct of package api that was not
// decoded from JSON, and checks its constraints. Its errors are those of Do.
func NewRequest(name string, in any) (Request, error) {
	o := find(name)
	if o == nil {
		return Request{}, apierror.UnknownOperation()
	}
	return Request{o, name, in}, o.envelop(wire.Check(in))
}

// Enveloped returns the error of a request that could not be decoded as the customer gets it.
func Enveloped(name string, err error) error {
	if o := find(name); o != nil {
		return o.envelop(err)
	}
	return err
}

// Do executes a request and encodes its reply into memory. An *apierror.Error
// is the customer's fault; any other error is a failure of the server.
func (s *Service) Do(ctx context.Context, r Request, memory *buffer.Scratch) (reply []byte, err error) {
	out, err := s.execute(ctx, r, memory)
	return out.text, err
}

// Answer executes a request like Do, and returns its reply as a pointer to a struct of
// package api.
func (s *Service) Answer(ctx context.Context, r Request) (reply any, err error) {
	out, err := s.execute(ctx, r, nil)
	return out.reply, err
}

// output is the reply to a request: as JSON if there was memory for it, as a struct of
// package api otherwise.
type output struct {
	text  []byte
	reply any
}

// execute executes a request. memory is nil for a reply that is not encoded.
func (s *Service) execute(ctx context.Context, r Request, memory *buffer.Scratch) (out output, err error) {
	c := carriedBy(ctx)
	if c != nil {
		c.operation, c.bill.By = r.name, c.Principal
	}
	if err = s.authorize(ctx, c, r); err == nil {
		if s.faults != nil && c != nil {
			out, err = s.doWithFaults(ctx, c, r, memory)
		} else {
			out, err = r.do(s, ctx, r.in, memory)
		}
	}
	if c != nil {
		c.settle(err)
	}
	s.countCached(ctx, err)
	if err != nil {
		s.countCancelled(ctx, err)
		err = r.envelop(s.worded(ctx, err))
	}
	return out, err
}

// operation says how requests of one name are answered.
type operation struct {
	read func(body []byte) (in any, err error)
	do   func(s *Service, ctx context.Context, in any, memory *buffer.Scratch) (output, error)
	// enveloped operations add a prefix to faults of the request itself.
	enveloped bool
	// expects, if set, returns the memory that a request may need for the items
	// that it reads and for its reply.
	expects func(in any) int64
}

// Expected is the memory to reserve before the request is executed. Requests that
// are mostly small expect none, and reserve what they need when they need it.
func (r Request) Expected() int64 {
	if r.expects == nil {
		return 0
	}
	return r.expects(r.in)
}

// envelop returns an error as the customer gets it.
func (o *operation) envelop(err error) error {
	if err == nil || !o.enveloped {
		return err
	}
	if fault, ok := errors.AsType[*apierror.Error](err); ok {
		return fault.Enveloped()
	}
	return err
}

func read[In any](body []byte) (any, error) {
	in := new(In)
	return in, wire.Decode(body, in)
}

// plain is an operation that replies with a struct of package api.
func plain[In, Reply any](do func(*Service, context.Context, *In) (*Reply, error)) *operation {
	return &operation{read: read[In], do: func(s *Service, ctx context.Context, request any, memory *buffer.Scratch) (output, error) {
		reply, err := do(s, ctx, request.(*In))
		if err != nil {
			return output{}, err
		}
		out, err := encode(ctx, reply, memory)
		if err == nil {
			s.measurePlain(ctx)
		}
		return out, err
	}}
}

// counted is a plain operation whose requests are counted.
func counted[In, Reply any](do func(*Service, context.Context, *In) (*Reply, usage, error)) *operation {
	return &operation{read: read[In], do: func(s *Service, ctx context.Context, request any, memory *buffer.Scratch) (output, error) {
		in := request.(*In)
		reply, used, err := do(s, ctx, in)
		if err != nil {
			return output{}, err
		}
		out, err := encode(ctx, reply, memory)
		if err != nil {
			return output{}, err // the request is repeated
		}
		s.record(ctx, &used)
		return out, nil
	}}
}

// countedByTable is a plain operation whose requests are counted once for each
// table that they use.
func countedByTable[In, Reply any](do func(*Service, context.Context, *In) (*Reply, usages, error)) *operation {
	return &operation{read: read[In], do: func(s *Service, ctx context.Context, request any, memory *buffer.Scratch) (output, error) {
		in := request.(*In)
		reply, used, err := do(s, ctx, in)
		if err != nil {
			return output{}, err
		}
		out, err := encode(ctx, reply, memory)
		if err != nil {
			return output{}, err // the request is repeated
		}
		for i := range used {
			s.record(ctx, &used[i])
		}
		return out, nil
	}}
}

// encode encodes a reply, if there is memory for it.
func encode[Reply any](ctx context.Context, reply *Reply, memory *buffer.Scratch) (output, error) {
	if memory == nil {
		return output{reply: reply}, reserveItems(ctx, reply)
	}
	text, err := reserveReply(reply, memory)
	if err != nil {
		return output{}, err
	}
	text = wire.AppendReply(text, reply)
	memory.Keep(text)
	return output{text: text}, nil
}

// paged is an operation that replies with a page of items, which are encoded
// while they are read.
func paged[In any](plan func(*Service, *In) (*reading, error)) *operation {
	return &operation{read: read[In], do: func(s *Service, ctx context.Context, request any, memory *buffer.Scratch) (output, error) {
		in := request.(*In)
		r, err := plan(s, in)
		if err != nil {
			return output{}, err
		}
		if memory == nil {
			r.items = &pageItems{memory: buffer.TallyOf(ctx, maxPageItems, 2*(db.MaxPageBytes+item.MaxSize))}
		} else {
			r.page = wire.NewPage(memory)
		}
		reply, used, err := s.readPage(ctx, r)
		if err != nil {
			return output{}, err
		}
		s.record(ctx, &used)
		if memory == nil {
			return output{reply: reply}, nil
		}
		return output{text: r.page.Reply(reply)}, nil
	}}
}

// enveloped marks an operation that adds a prefix to faults of the request
// itself.
func enveloped(o *operation) *operation {
	o.enveloped = true
	return o
}

// firstFault runs checks in order and returns the first fault.
func firstFault[In any](in *In, checks []func(*In) error) error {
	for _, check := range checks {
		if err := check(in); err != nil {
			return err
		}
	}
	return nil
}

// pattern returns a regular expression that is compiled on first use: one with
// {3,255} takes half a millisecond to compile.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Caller describes the client that sent a request.
type Caller struct {
	Region string      // as in the credential scope
	Host   string      // the address that it uses for this server
	Room   buffer.Room // the memory that the request may use; nil has no bound

	Uncounted bool // the request is not counted by its shape

	Arrived time.Time // when the request was received; it is not measured without

	// Principal is the ARN of the key's owner; empty if the signature is not verified. The
	// change log has it.
	Principal string

	// Identity is nil if there are no policies: then everything is allowed.
	Identity *principals.Identity
	ID       [52]byte // of the request
	SourceIP string

	// Cluster is the ARN of the DAX cluster that the caller uses; empty over HTTP. The
	// caller then needs permissions on the cluster, not on tables.
	Cluster string

	UserAgent string
	Secure    bool // the connection has TLS

	// Used, if set, is called for each table of a successful request to items, with what
	// the request has consumed there.
	Used func(*api.ConsumedCapacity)

	operation string // its name

	bill db.Bill

	faultsDecided bool
	faults        *faultsOfRequest // nil if none are injected
}

// settle counts what a request has consumed, unless it is repeated.
func (c *Caller) settle(err error) {
	if errors.Is(err, buffer.ErrNoRoom) {
		c.bill.Discard()
		return
	}
	c.bill.Settle()
}

type callerKey struct{}

// callerContext is a context that carries the caller of a request.
type callerContext struct {
	context.Context
	caller *Caller
}

// Value returns the caller, its room or its bill, without another context for each.
func (c *callerContext) Value(key any) any {
	switch key.(type) {
	case callerKey:
		return c.caller
	case buffer.RoomKey:
		return c.caller.Room
	case db.BillKey:
		return &c.caller.bill
	}
	return c.Context.Value(key)
}

// WithCaller returns a context that carries the caller of a request.
func WithCaller(ctx context.Context, c Caller) context.Context { return Carry(ctx, &c) }

// Carry is WithCaller for a caller whose memory is used again after the request: nothing else
// may keep it.
func Carry(ctx context.Context, c *Caller) context.Context { return &callerContext{ctx, c} }

// carriedBy returns the caller that a context carries, or nil.
func carriedBy(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

func callerOf(ctx context.Context) Caller {
	var c Caller
	if carried := carriedBy(ctx); carried != nil {
		c = *carried
	}
	c.Region = cmp.Or(c.Region, "us-east-1")
	return c
}

// tableARN returns the ARN of a table in the caller's region.
func (s *Service) tableARN(ctx context.Context, table string) string {
	return "arn:aws:dynamodb:" + callerOf(ctx).Region + ":" + s.account + ":table/" + table
}

// isSet reports whether an optional member has this value.
func isSet(member *string, value string) bool { return member != nil && *member == value }
