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
	m := Member{i.Tenant, u.ID, i.Role}
	err := s.transact(ctx,
		types.TransactWriteItem{Delete: &types.Delete{
			TableName:                 &s.Table,
			Key:                       i.Tenant.Token(i.Token).Attributes(),
			ConditionExpression:       aws.String("attribute_exists(PK) AND #ttl > :now"),
			ExpressionAttributeNames:  map[string]string{"#ttl": "ttl"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":now": num(s.Now().Unix())},
		}},
		s.put(whole(m, i.Tenant.Member(u.ID))),
		s.person(u),
	)
	var no refused
	if errors.As(err, &no) {
		return Member{}, ErrNotFound
	}
	return m, err
}
