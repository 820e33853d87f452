package table

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Tenant is a customer.
type Tenant struct {
	ID       keys.Tenant `dynamodbav:"tenantId" json:"tenantId"`
	Name     string      `dynamodbav:"name" json:"name"`
	Plan     string      `dynamodbav:"plan" json:"plan"`
	Projects *int        `dynamodbav:"projectCount,omitempty" json:"-"` // nil in a tenant of an earlier version
	Users    *int        `dynamodbav:"userCount,omitempty" json:"-"`
	Listed   bool        `dynamodbav:"listed,omitempty" json:"-"` // all its projects are in GSI1
	Created  string      `dynamodbav:"createdAt" json:"createdAt"`
}

// User is a person. A person may be a member of several tenants.
type User struct {
	ID    keys.UserID `dynamodbav:"userId" json:"userId"`
	Email string      `dynamodbav:"email" json:"email"`
	Name  string      `dynamodbav:"name" json:"name"`

	// Issuer and Subject identify the person at the identity provider.
	Issuer  string `dynamodbav:"issuer,omitempty" json:"issuer,omitempty"`
	Subject string `dynamodbav:"subject,omitempty" json:"subject,omitempty"`

	// Indexed is set if all memberships of the person are in GSI1. Those of earlier
	// versions are not.
	Indexed bool   `dynamodbav:"indexed,omitempty" json:"-"`
	Joined  string `dynamodbav:"joinedAt,omitempty" json:"-"` // the last membership
}

// The roles of a member.
const (
	RoleAdmin  = "admin"
	RoleMember = "member"
)

// Member is a person in a tenant.
type Member struct {
	Tenant keys.Tenant `dynamodbav:"tenantId" json:"tenantId"`
	User   keys.UserID `dynamodbav:"userId" json:"userId"`
	Role   string      `dynamodbav:"role" json:"role"`
}

// CreateTenant creates a tenant and, unless nil, its first member, an admin.
func (s *Store) CreateTenant(ctx context.Context, name, plan string, first *User) (Tenant, error) {
	projects, users := 0, 0
	if first != nil {
		users = 1
	}
	t := Tenant{ID: keys.NewTenant(), Name: name, Plan: plan, Projects: &projects, Users: &users, Listed: true, Created: s.now()}
	writes := []types.TransactWriteItem{s.fresh(whole(t, t.ID.Metadata()))}
	if first != nil {
		person, err := s.person(ctx, *first)
		if err != nil {
			return Tenant{}, err
		}
		m := Member{t.ID, first.ID, RoleAdmin}
		writes = append(writes, s.fresh(whole(m, t.ID.Member(first.ID), t.ID.MemberEntry(first.ID))), person)
	}
	if err := s.transact(ctx, writes...); err != nil {
		return Tenant{}, fmt.Errorf("create the tenant: %w", err)
	}
	return t, nil
}

// person returns the write of a user that joins a tenant. A user that exists already
// because of another tenant keeps its name.
func (s *Store) person(ctx context.Context, u User) (types.TransactWriteItem, error) {
	set := "SET userId = :user, email = :email, #name = if_not_exists(#name, :name), joinedAt = :now, GSI1PK = :GSI1PK, GSI1SK = :GSI1SK"
	v := values(
		map[string]types.AttributeValue{":user": str(u.ID.String()), ":email": str(u.Email), ":name": str(u.Name), ":now": str(s.now())},
		entryValues(keys.EmailEntry(u.Email, u.ID)),
	)
	if u.Subject != "" {
		set += ", issuer = :issuer, subject = :subject"
		v[":issuer"], v[":subject"] = str(u.Issuer), str(u.Subject)
	}
	_, err := get[User](ctx, s, keys.User(u.ID), true)
	switch {
	case errors.Is(err, ErrNotFound):
		set += ", #indexed = :yes"
		v[":yes"] = &types.AttributeValueMemberBOOL{Value: true}
	case err != nil:
		return types.TransactWriteItem{}, err
	}
	names := map[string]string{"#name": "name"}
	if v[":yes"] != nil {
		names["#indexed"] = "indexed"
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &s.Table,
		Key:                       keys.User(u.ID).Attributes(),
		UpdateExpression:          aws.String(set),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: v,
	}}, nil
}

// TenantsOf returns the memberships of a person, in all tenants.
func (s *Store) TenantsOf(ctx context.Context, u keys.UserID) ([]Member, error) {
	in := keys.TenantsOf(u).Query(s.Table)
	in.Limit = aws.Int32(100)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("list the tenants of a person: %w", err)
	}
	var all []Member
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &all); err != nil {
		return nil, fmt.Errorf("decode a membership: %w", err)
	}
	return all, nil
}

// entryValues returns an index entry's attributes as expression values, under
// their own names.
func entryValues(e keys.Entry) map[string]types.AttributeValue {
	named := make(map[string]types.AttributeValue, 2)
	for name, v := range e.Attributes() {
		named[":"+name] = v
	}
	return named
}

// sortValue returns the sort key of an index entry that stays in its partition, as an
// expression value.
func sortValue(e keys.Entry) map[string]types.AttributeValue {
	named := entryValues(e)
	maps.DeleteFunc(named, func(name string, _ types.AttributeValue) bool { return strings.HasSuffix(name, "PK") })
	return named
}

// Tenant reads a tenant.
func (s *Store) Tenant(ctx context.Context, t keys.Tenant) (Tenant, error) {
	return get[Tenant](ctx, s, t.Metadata(), false)
}

// TenantExists reports whether a tenant exists now. What belongs to a deleted one
// exists until the jobs of the deletion have deleted it.
func (s *Store) TenantExists(ctx context.Context, t keys.Tenant) (bool, error) {
	_, err := get[Tenant](ctx, s, t.Metadata(), true)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Member reads a membership, which has the person's role.
func (s *Store) Member(ctx context.Context, t keys.Tenant, u keys.UserID) (Member, error) {
	return get[Member](ctx, s, t.Member(u), false)
}

// Members lists the members of a tenant.
func (s *Store) Members(ctx context.Context, t keys.Tenant, cursor string) (Page[Member], error) {
	return list[Member](ctx, s, t.Members(), cursor, 50, nil)
}

// RemoveMember ends a membership, on the condition that the person who asks for it is
// an admin: two admins cannot remove each other. The person is deleted if it was the
// last membership.
func (s *Store) RemoveMember(ctx context.Context, t keys.Tenant, u, by keys.UserID) error {
	if _, err := s.counted(ctx, t); err != nil {
		return err
	}
	err := s.transact(ctx,
		types.TransactWriteItem{Delete: &types.Delete{TableName: &s.Table, Key: t.Member(u).Attributes(), ConditionExpression: aws.String("attribute_exists(PK)")}},
		s.step(t, userCount, -1, 0),
		s.startDeletion(t, Deletion{What: "user", User: &u}),
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &s.Table, Key: t.Member(by).Attributes(),
			ConditionExpression:       aws.String("#role = :admin"),
			ExpressionAttributeNames:  map[string]string{"#role": "role"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":admin": str(RoleAdmin)},
		}},
	)
	var no refused
	switch {
	case errors.As(err, &no) && no[0] == 3:
		return ErrMoved
	case errors.As(err, &no):
		return ErrNotFound
	}
	return err
}

// User reads the person of a membership of a tenant. Other persons are not found.
func (s *Store) User(ctx context.Context, m Member) (User, error) {
	return get[User](ctx, s, keys.User(m.User), false)
}

// Users reads the persons of memberships.
func (s *Store) Users(ctx context.Context, members []Member) (map[keys.UserID]User, error) {
	found := make(map[keys.UserID]User)
	for some := range slices.Chunk(members, 100) {
		var wanted []map[string]types.AttributeValue
		for _, m := range some {
			wanted = append(wanted, keys.User(m.User).Attributes())
		}
		for try := 0; len(wanted) > 0; try++ {
			out, err := s.DB.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{s.Table: {Keys: wanted}}})
			if err != nil {
				return nil, fmt.Errorf("read users: %w", err)
			}
			var users []User
			if err := attributevalue.UnmarshalListOfMaps(out.Responses[s.Table], &users); err != nil {
				return nil, fmt.Errorf("decode a user: %w", err)
			}
			for _, u := range users {
				found[u.ID] = u
			}
			if wanted = out.UnprocessedKeys[s.Table].Keys; len(wanted) > 0 {
				if err := pause(ctx, min(try, 10)); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// People returns the persons with an email, of all tenants: the caller must compare
// memberships.
func (s *Store) People(ctx context.Context, email string) ([]User, error) {
	in := keys.Email(Email(email)).Query(s.Table)
	in.Limit = aws.Int32(20)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("find an email: %w", err)
	}
	var found []User
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &found); err != nil {
		return nil, fmt.Errorf("decode a user: %w", err)
	}
	return found, nil
}

// MemberByEmail finds a tenant's member. A person who is only a member of other
// tenants is not found.
func (s *Store) MemberByEmail(ctx context.Context, t keys.Tenant, email string) (User, Member, error) {
	people, err := s.People(ctx, email)
	if err != nil {
		return User{}, Member{}, err
	}
	for _, u := range people {
		m, err := s.Member(ctx, t, u.ID)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		return u, m, err
	}
	return User{}, Member{}, ErrNotFound
}

// Email normalises an email for lookups.
func Email(email string) string { return strings.ToLower(strings.TrimSpace(email)) }
