package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/session"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// small is the maximum size of the body of most requests, in bytes.
const small = 128 << 10

// readName validates a name.
func readName(what, name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > 200 || !utf8.ValidString(name) {
		return "", web.Refuse(http.StatusBadRequest, "bad_name", "the %s must have 1 to 200 bytes", what)
	}
	return name, nil
}

// readEmail validates an email and normalises it.
func readEmail(text string) (string, error) {
	a, err := mail.ParseAddress(strings.TrimSpace(text))
	if err != nil || a.Name != "" || len(a.Address) > 254 {
		return "", web.Refuse(http.StatusBadRequest, "bad_email", "%.80q is not an email such as ann@example.com", text)
	}
	return table.Email(a.Address), nil
}

// createTenant is for users of the built-in issuer, and for operators.
func (s *Server) createTenant(c *call) (any, error) {
	var in struct{ Name, Plan, Email, Person string }
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	if !s.Trusting {
		p, err := s.person(c)
		if err != nil {
			return nil, err
		}
		if !p.Operator {
			return nil, web.Refuse(http.StatusForbidden, "no_operator", "only operators can create tenants")
		}
	}
	name, err := readName("name", in.Name)
	if err != nil {
		return nil, err
	}
	email, err := readEmail(in.Email)
	if err != nil {
		return nil, err
	}
	person, err := readName("person", in.Person)
	if err != nil {
		return nil, err
	}
	if in.Plan == "" {
		in.Plan = table.Plans[0].Name
	}
	if _, ok := table.PlanOf(in.Plan); !ok {
		return nil, web.Refuse(http.StatusBadRequest, "bad_plan", "the plan is %.60q, but must be free, team or enterprise", in.Plan)
	}
	if !s.Trusting {
		return s.createFor(c, name, in.Plan, email)
	}
	p := s.Issuer.Person(email, person)
	t, err := s.Store.CreateTenant(c.ctx(), name, in.Plan, &table.User{ID: p.User, Email: email, Name: person})
	if err != nil {
		return nil, err
	}
	signed, err := s.Issuer.Issue(p, &t.ID)
	return struct {
		table.Tenant
		Session string `json:"session"`
	}{t, signed}, err
}

// createFor creates a tenant whose first admin is invited, since only the admin's
// own issuer can identify them.
func (s *Server) createFor(c *call, name, plan, email string) (any, error) {
	t, err := s.Store.CreateTenant(c.ctx(), name, plan, nil)
	if err != nil {
		return nil, err
	}
	code, err := s.Store.Invite(c.ctx(), t.ID, email, table.RoleAdmin)
	return struct {
		table.Tenant
		Invitation string `json:"invitation"`
	}{t, code}, err
}

// signIn is the built-in issuer: it trusts every email without proof.
func (s *Server) signIn(c *call) (any, error) {
	var in struct{ Email, Tenant string }
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	signed, err := s.signed(c, in.Email, in.Tenant)
	return map[string]string{"session": signed}, err
}

func (s *Server) signed(c *call, email, tenant string) (string, error) {
	if !s.Trusting {
		return "", web.Refuse(http.StatusNotFound, "no_issuer", "sessions are issued by the identity provider here")
	}
	no := web.Refuse(http.StatusForbidden, "no_member", "no member of this tenant has this email")
	t, err := keys.ParseTenant(tenant)
	if err != nil {
		return "", no
	}
	u, m, err := s.Store.MemberByEmail(c.ctx(), t, email)
	if errors.Is(err, table.ErrNotFound) {
		return "", no
	}
	if err != nil {
		return "", err
	}
	return s.Issuer.Issue(session.Person{User: u.ID, Email: u.Email, Name: u.Name}, &m.Tenant)
}

func (s *Server) whoAmI(c *call) (any, error) {
	return map[string]any{"tenantId": c.tenant(), "userId": c.session.User, "email": c.session.Email, "role": c.member.Role}, nil
}

func (s *Server) getTenant(c *call) (any, error) {
	if c.r.PathValue("tenant") != c.tenant().String() {
		return nil, notFound
	}
	return s.Store.Tenant(c.ctx(), c.tenant())
}

// usage returns what the tenant uses of its plan.
func (s *Server) usage(c *call) (any, error) { return s.Store.Usage(c.ctx(), c.tenant()) }

// found is a member and the person.
type found struct {
	table.User
	Role string `json:"role"`
}

func (s *Server) listUsers(c *call) (any, error) {
	if email := c.query("email"); email != "" {
		u, m, err := s.Store.MemberByEmail(c.ctx(), c.tenant(), email)
		return table.Page[found]{Items: []found{{u, m.Role}}}, err
	}
	return s.people(c)
}

// people returns a page of the members with their names.
func (s *Server) people(c *call) (table.Page[found], error) {
	page := table.Page[found]{Items: []found{}}
	members, err := s.Store.Members(c.ctx(), c.tenant(), c.query("cursor"))
	if err != nil {
		return page, err
	}
	users, err := s.Store.Users(c.ctx(), members.Items)
	if err != nil {
		return page, err
	}
	for _, m := range members.Items {
		u := users[m.User]
		u.ID = m.User
		page.Items = append(page.Items, found{u, m.Role})
	}
	page.Next = members.Next
	slices.SortStableFunc(page.Items, func(a, b found) int { return strings.Compare(a.Name, b.Name) })
	return page, nil
}

func (s *Server) getUser(c *call) (any, error) {
	u, err := id[keys.UserID](c, "user")
	if err != nil {
		return nil, err
	}
	m, err := s.Store.Member(c.ctx(), c.tenant(), u)
	if err != nil {
		return nil, err
	}
	user, err := s.Store.User(c.ctx(), m)
	return found{user, m.Role}, err
}

func (s *Server) removeUser(c *call) (any, error) {
	u, err := id[keys.UserID](c, "user")
	if err != nil {
		return nil, err
	}
	return nil, s.remove(c, u)
}

func (s *Server) remove(c *call, u keys.UserID) error {
	if u == c.session.User {
		return web.Refuse(http.StatusConflict, "yourself", "you cannot remove yourself: ask another admin")
	}
	return s.Store.RemoveMember(c.ctx(), c.tenant(), u, c.session.User)
}

func (s *Server) invite(c *call) (any, error) {
	var in struct{ Email, Role string }
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	email, err := readEmail(in.Email)
	if err != nil {
		return nil, err
	}
	if in.Role == "" {
		in.Role = table.RoleMember
	}
	if in.Role != table.RoleMember && in.Role != table.RoleAdmin {
		return nil, web.Refuse(http.StatusBadRequest, "bad_role", "the role is %.60q, but must be member or admin", in.Role)
	}
	code, err := s.newInvitation(c, email, in.Role)
	return map[string]string{"invitation": code}, err
}

// newInvitation creates an invitation and sends it by mail, if mails can be sent. If
// that fails, the invitation is valid nevertheless: an admin can pass it on.
func (s *Server) newInvitation(c *call, email, role string) (string, error) {
	code, err := s.Store.Invite(c.ctx(), c.tenant(), email, role)
	if err != nil || s.Mail == nil || s.URL == "" {
		return code, err
	}
	t, err := s.Store.Tenant(c.ctx(), c.tenant())
	if err != nil {
		return code, err
	}
	text := fmt.Sprintf("%s invites you to %s.\n\nAccept the invitation within three days:\n%s/join?invitation=%s\n", c.session.Email, t.Name, s.URL, url.QueryEscape(code))
	if err := s.Mail.Send(c.ctx(), email, "Invitation to "+t.Name, text); err != nil {
		s.Log.Error("sending an invitation failed", "tenant", t.ID, "error", err)
	}
	return code, nil
}

// acceptInvitation needs the code, and a session unless the issuer trusts every email.
func (s *Server) acceptInvitation(c *call) (any, error) {
	var in struct{ Invitation, Name string }
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	m, signed, err := s.join(c, in.Invitation, in.Name)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"tenantId": m.Tenant, "userId": m.User, "role": m.Role}
	if signed != "" {
		out["session"] = signed
	}
	return out, nil
}

// join makes a person a member, and returns a session if we issue them.
func (s *Server) join(c *call, invitation, name string) (table.Member, string, error) {
	name, err := readName("name", name)
	if err != nil {
		return table.Member{}, "", err
	}
	no := web.Refuse(http.StatusNotFound, "no_invitation", "the invitation does not exist, has expired or was used")
	i, err := s.Store.Invitation(c.ctx(), invitation)
	if errors.Is(err, table.ErrNotFound) {
		return table.Member{}, "", no
	}
	if err != nil {
		return table.Member{}, "", err
	}
	var p session.Person
	if s.Trusting {
		p = s.Issuer.Person(i.Email, name)
	} else if p, err = s.person(c); err != nil {
		return table.Member{}, "", err
	} else if table.Email(p.Email) != i.Email {
		return table.Member{}, "", web.Refuse(http.StatusForbidden, "other_person", "the invitation is for another email than the session's")
	}
	u := table.User{ID: p.User, Email: i.Email, Name: name, Issuer: p.Issuer, Subject: p.Subject}
	m, err := s.Store.Accept(c.ctx(), i, u)
	if errors.Is(err, table.ErrNotFound) {
		return m, "", no
	}
	if err != nil || s.Issuer == nil {
		return m, "", err
	}
	signed, err := s.Issuer.Issue(p, &m.Tenant)
	if err != nil {
		return m, "", fmt.Errorf("sign the new member in: %w", err)
	}
	return m, signed, nil
}

// signInLife is how long a browser keeps a session.
const signInLife = session.Life - time.Minute
