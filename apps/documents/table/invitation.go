package table

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	i := Invitation{Tenant: t, Token: tokenOf(secret), Email: email, Role: role, Expires: s.Now().Add(InvitationLife).Unix()}
	return t.String() + "." + secret, s.put1(ctx, whole(i, t.Token(i.Token)))
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
	member := s.fresh(whole(m, i.Tenant.Member(u.ID)))
	more := []types.TransactWriteItem{s.step(i.Tenant, userCount, 1, p.Users)}
	if _, err := s.Member(ctx, i.Tenant, u.ID); err == nil { // only the role changes
		member, more = s.put(whole(m, i.Tenant.Member(u.ID))), nil
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
		s.person(u),
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
