package table

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// InvitationLife is how long an invitation is valid.
const InvitationLife = 3 * 24 * time.Hour

// Invitation lets the holder of its code become a member.
type Invitation struct {
	Tenant  keys.Tenant  `dynamodbav:"tenantId"`
	Token   keys.TokenID `dynamodbav:"token"` // derived from the secret, which is not stored
	Email   string       `dynamodbav:"email"`
	Role    string       `dynamodbav:"role"`
	Expires int64        `dynamodbav:"ttl"`
	Created string       `dynamodbav:"createdAt"`
}

// Invite creates an invitation, and returns the code that accepts it: the tenant
// and a secret.
func (s *Store) Invite(ctx context.Context, t keys.Tenant, email, role string) (string, error) {
	tenant, err := s.counted(ctx, t)
	if err != nil {
		return "", err
	}
	if p, _ := PlanOf(tenant.Plan); p.Users > 0 && *tenant.Users >= p.Users {
		return "", &LimitError{Plan: p.Name, What: "users", Limit: int64(p.Users), Used: int64(*tenant.Users)}
	}
	secret := rand.Text()
	now := s.Now()
	i := Invitation{Tenant: t, Token: tokenOf(secret), Email: email, Role: role, Expires: now.Add(InvitationLife).Unix(), Created: keys.Time(now)}
	p, _ := PlanOf(tenant.Plan)
	err = s.transact(ctx, s.exists(t.Metadata()), s.fresh(whole(i, t.Token(i.Token), t.InvitationEntry(now))),
		types.TransactWriteItem{Update: s.tally(t, "invitations", 1, p.Invitations())})
	var no refused
	if errors.As(err, &no) && no[0] == 2 {
		return "", &LimitError{Plan: p.Name, What: "invitations a month", Limit: int64(p.Invitations()), Used: int64(p.Invitations())}
	}
	if errors.As(err, &no) {
		return "", ErrNotFound
	}
	return t.String() + "." + secret, err
}

// Invitations lists the invitations that were neither used nor have expired, newest
// first. Those of an earlier version are not listed.
func (s *Store) Invitations(ctx context.Context, t keys.Tenant) ([]Invitation, error) {
	in := t.Invitations().Query(s.Table)
	in.Limit = aws.Int32(100)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("list invitations: %w", err)
	}
	all := []Invitation{}
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &all); err != nil {
		return nil, fmt.Errorf("decode an invitation: %w", err)
	}
	now := s.Now().Unix()
	return slices.DeleteFunc(all, func(i Invitation) bool { return i.Expires <= now }), nil
}

// Revoke deletes an invitation.
func (s *Store) Revoke(ctx context.Context, t keys.Tenant, id keys.TokenID) error {
	_, err := s.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.Table, Key: t.Token(id).Attributes(), ConditionExpression: aws.String("attribute_exists(PK)")})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return ErrNotFound
	}
	return err
}

func tokenOf(secret string) keys.TokenID {
	sum := sha256.Sum256([]byte(secret))
	return keys.DeriveID[keys.TokenID](string(sum[:]))
}

// Invitation finds the invitation of a code, if it has not expired. The table
// deletes expired items with a delay, so the time is checked here.
func (s *Store) Invitation(ctx context.Context, code string) (Invitation, error) {
	tenant, secret, _ := strings.Cut(code, ".")
	t, err := keys.ParseTenant(tenant) // the secret authorises the tenant
	if err != nil {
		return Invitation{}, ErrNotFound
	}
	i, err := get[Invitation](ctx, s, t.Token(tokenOf(secret)), true)
	if err == nil && i.Expires <= s.Now().Unix() {
		return Invitation{}, ErrNotFound
	}
	return i, err
}

// Accept makes the invited person a member. An invitation can be used once.
func (s *Store) Accept(ctx context.Context, i Invitation, u User) (Member, error) {
	tenant, err := s.counted(ctx, i.Tenant)
	if err != nil {
		return Member{}, err
	}
	p, _ := PlanOf(tenant.Plan)
	m := Member{i.Tenant, u.ID, i.Role}
	person, err := s.person(ctx, u)
	if err != nil {
		return Member{}, err
	}
	item := whole(m, i.Tenant.Member(u.ID), i.Tenant.MemberEntry(u.ID))
	member := s.fresh(item)
	more := []types.TransactWriteItem{s.step(i.Tenant, userCount, 1, p.Users)}
	if _, err := s.Member(ctx, i.Tenant, u.ID); err == nil { // only the role changes
		member, more = s.put(item), nil
		member.Put.ConditionExpression = aws.String("attribute_exists(PK)")
	} else if !errors.Is(err, ErrNotFound) {
		return Member{}, err
	}
	err = s.transact(ctx, append([]types.TransactWriteItem{
		{Delete: &types.Delete{
			TableName:                 &s.Table,
			Key:                       i.Tenant.Token(i.Token).Attributes(),
			ConditionExpression:       aws.String("attribute_exists(PK) AND #ttl > :now"),
			ExpressionAttributeNames:  map[string]string{"#ttl": "ttl"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":now": num(s.Now().Unix())},
		}},
		member,
		person,
	}, more...)...)
	var no refused
	switch {
	case errors.As(err, &no) && no[0] == 0:
		return Member{}, ErrNotFound
	case errors.As(err, &no) && no[0] == 3:
		return Member{}, &LimitError{Plan: p.Name, What: "users", Limit: int64(p.Users), Used: int64(*tenant.Users)}
	case errors.As(err, &no):
		return Member{}, ErrMoved
	}
	return m, err
}
