package ops

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/policy"
)

// authorize checks that the caller may do all that a request asks for. It runs after the
// request was decoded and before the table is looked up. Without an identity everything
// is allowed.
func (s *Service) authorize(ctx context.Context, c *Caller, r Request) error {
	if c == nil || c.Identity == nil {
		return nil
	}
	needed, err := s.permissions(ctx, r)
	if err != nil {
		return err
	}
	if len(needed) == 0 {
		return apierror.AccessDenied("Access is denied")
	}
	for i := range needed {
		if needed[i].rejected != nil { // the operation says so
			continue
		}
		if err := s.permit(ctx, c, &needed[i]); err != nil {
			return err
		}
	}
	return nil
}

// permit checks one permission.
func (s *Service) permit(ctx context.Context, c *Caller, p *permission) error {
	q := s.question(ctx, c, p)
	verdict := q.evaluate()
	if q.values.fault != nil {
		return q.values.fault
	}
	if verdict.Allowed() {
		return q.values.missing // a table that is created meanwhile may have other keys
	}
	message := policy.Refusal(&q.request, verdict)
	s.denials.add(Denial{
		RequestID: string(c.ID[:]), Time: s.DB.Now(), Operation: c.operation, Principal: c.Identity.Principal.ARN,
		Action: p.action, Resource: p.resource, Message: message, Explanation: q.explain(),
	})
	return apierror.AccessDenied("%s", message)
}

// Permitted checks that a caller may do something that is not done to a resource, on a server of
// an account without a database.
func Permitted(c *Caller, account, action string, now time.Time) error {
	p := &permission{action: action, resource: "*"}
	request := policy.Request{Principal: c.Identity.Principal, Action: action, Resource: "*", ResourceAccount: account,
		Context: &conditionValues{caller: c, permission: p, region: c.Region, now: now}}
	if verdict := c.Identity.Policies.Evaluate(&request); !verdict.Allowed() {
		return apierror.AccessDenied("%s", policy.Refusal(&request, verdict))
	}
	return nil
}

// ownsPolicy reports whether a resource policy cannot prevent what a principal does: the root
// user of the account can always replace one.
func (s *Service) ownsPolicy(p *policy.Principal, action string) bool {
	return p.Kind == policy.Root && p.Account == s.account && strings.HasSuffix(action, "ResourcePolicy")
}

// question asks whether a caller has one permission.
type question struct {
	policies policy.Policies
	request  policy.Request
	values   conditionValues
}

// question returns the question for a permission, with the policies that answer it.
func (s *Service) question(ctx context.Context, c *Caller, p *permission) *question {
	q := &question{
		policies: c.Identity.Policies,
		request:  policy.Request{Principal: c.Identity.Principal, Action: p.action, Resource: p.resource, ResourceAccount: s.account},
		values:   conditionValues{service: s, caller: c, permission: p, region: callerOf(ctx).Region, now: s.DB.Now()},
	}
	if !s.ownsPolicy(c.Identity.Principal, p.action) {
		q.policies.Resource = s.resourcePolicy(p)
	}
	q.request.Context = &q.values
	return q
}

func (q *question) evaluate() policy.Verdict     { return q.policies.Evaluate(&q.request) }
func (q *question) explain() *policy.Explanation { return q.policies.Explain(&q.request) }

// Permit checks that the caller may do something that is not done to a resource, and is no operation.
func (s *Service) Permit(ctx context.Context, action string) error {
	c := carriedBy(ctx)
	if c == nil || c.Identity == nil {
		return nil
	}
	c.operation = action
	return s.permit(ctx, c, &permission{action: action, resource: "*"})
}

// IsAction reports whether a name is that of an action which belongs to no operation: Permit decides about it.
func IsAction(name string) bool { return policy.IsOwnAction(name) && ownOperations[name] == nil }

// ActionRequest returns a request that needs nothing but such an action, for Explain.
func ActionRequest(name string) Request { return Request{name: name} }

// resourcePolicy returns the policy of a permission's resource; nil if there is none.
func (s *Service) resourcePolicy(p *permission) *policy.Document {
	if p.table == "" {
		return nil
	}
	t := s.definitionOf(p)
	if t == nil {
		return nil
	}
	stored, ok := t.Policies[p.label()]
	if !ok || stored.Document == "" {
		return nil
	}
	return s.documents.parse(stored.Document)
}

// definitionOf returns the table that a permission's resource belongs to, in any state; nil if there is
// none. The table of a stream may be deleted, and another one may have its name.
func (s *Service) definitionOf(p *permission) *schema.Table {
	if p.stream {
		if found, ok := s.DB.Stream(p.table, p.label()); ok {
			return found.Table
		}
	}
	if t, err := s.DB.Table(p.table); err == nil {
		return t
	}
	if t, err := s.DB.Describe(p.table); err == nil {
		return t.Table
	}
	return nil
}

// parsedDocuments are resource policies by their text.
type parsedDocuments struct {
	mu     sync.Mutex
	byText map[string]*policy.Document
}

const maxParsedDocuments = 1000

// parse returns a stored policy. One that cannot be parsed was stored by a later version:
// it allows nothing and denies everything.
func (d *parsedDocuments) parse(text string) *policy.Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found, ok := d.byText[text]; ok {
		return found
	}
	parsed, err := policy.ParseStored(policy.Resource, []byte(text))
	if err != nil {
		parsed = denyAll()
	}
	if d.byText == nil || len(d.byText) >= maxParsedDocuments {
		d.byText = make(map[string]*policy.Document)
	}
	d.byText[text] = parsed
	return parsed
}

var denyAll = sync.OnceValue(func() *policy.Document {
	d, err := policy.Parse(policy.Resource, []byte(`{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}`))
	if err != nil {
		panic(err)
	}
	return d
})

// conditionValues are the values of the condition keys of one permission.
type conditionValues struct {
	service    *Service
	caller     *Caller
	permission *permission
	region     string
	now        time.Time

	details policy.Keys // of the permission; nil until they are asked for
	fault   error       // of the request, found while its details were computed
	missing error       // that the table does not exist, whose keys are therefore not known
}

// Lookup returns the values of a condition key.
func (v *conditionValues) Lookup(key string) policy.Values {
	switch key {
	case "aws:sourceip":
		if v.caller.SourceIP == "" {
			return policy.Values{}
		}
		return policy.One(v.caller.SourceIP)
	case "aws:securetransport":
		return policy.One(strconv.FormatBool(v.caller.Secure))
	case "aws:useragent":
		return policy.One(v.caller.UserAgent)
	case "aws:requestedregion":
		return policy.One(v.region)
	case "aws:currenttime":
		return policy.One(v.now.UTC().Format(time.RFC3339))
	case "aws:epochtime":
		return policy.One(strconv.FormatInt(v.now.Unix(), 10))
	case "aws:userid":
		if id := v.caller.Identity.UserID; id != "" {
			return policy.One(id)
		}
		return policy.Values{}
	}
	if name, ok := strings.CutPrefix(key, "aws:principaltag/"); ok {
		return tagNamed(name, func(each func(key, value string)) {
			for k, value := range v.caller.Identity.Tags {
				each(k, value)
			}
		})
	}
	if name, ok := strings.CutPrefix(key, "aws:resourcetag/"); ok {
		return tagNamed(name, v.eachTag)
	}
	if strings.HasPrefix(key, "dynamodb:") || strings.HasPrefix(key, "dax:") || strings.HasPrefix(key, "aws:requesttag/") || key == "aws:tagkeys" {
		return v.ofRequest()[key]
	}
	return v.caller.Identity.Principal.Lookup(key)
}

// tagNamed returns the value of a tag. The names of condition keys have no case: with several
// spellings of a name, it has no single value.
func tagNamed(name string, tags func(each func(key, value string))) policy.Values {
	var found []string
	tags(func(key, value string) {
		if strings.EqualFold(key, name) {
			found = append(found, value)
		}
	})
	if len(found) == 1 {
		return policy.One(found[0])
	}
	return policy.Many(found)
}

// eachTag calls each for the tags of the permission's table or cluster.
func (v *conditionValues) eachTag(each func(key, value string)) {
	if v.permission.tags != nil {
		v.permission.tags(each)
		return
	}
	if v.permission.table == "" {
		return
	}
	if t := v.service.definitionOf(v.permission); t != nil {
		for _, tag := range t.Tags {
			each(tag.Key, tag.Value)
		}
	}
}

// ofRequest returns the values that depend on the request.
func (v *conditionValues) ofRequest() policy.Keys {
	if v.details != nil {
		return v.details
	}
	v.details = make(policy.Keys)
	if v.permission.details == nil {
		return v.details
	}
	d, err := v.permission.details()
	if err != nil {
		v.fault = err
		return v.details
	}
	v.missing = d.missing
	for key, value := range d.one {
		v.details.Set(key, policy.One(value))
	}
	for key, values := range d.many {
		v.details.Set(key, policy.Many(values))
	}
	return v.details
}

// Denial is a request that was refused, with the reasons.
type Denial struct {
	RequestID   string
	Time        time.Time
	Operation   string
	Principal   string
	Action      string
	Resource    string
	Message     string
	Explanation *policy.Explanation
}

// maxDenials is how many denials are kept, so that they can be explained.
const maxDenials = 500

// denials are the last requests that were refused.
type denials struct {
	mu   sync.Mutex
	ring [maxDenials]Denial
	next int
}

func (d *denials) add(denial Denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ring[d.next] = denial
	d.next = (d.next + 1) % maxDenials
}

// find returns the denial of a request.
func (d *denials) find(id string) (Denial, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.ring {
		if d.ring[i].RequestID == id && id != "" {
			return d.ring[i], true
		}
	}
	return Denial{}, false
}
