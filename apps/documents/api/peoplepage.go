package api

import (
	"net/http"
	"net/url"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// peoplePage lists the members of the tenant, and to admins the open invitations.
func (s *Server) peoplePage(c *call) (any, error) {
	people, err := s.people(c)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Tenant(c.ctx(), c.tenant())
	if err != nil {
		return nil, err
	}
	data := map[string]any{"People": people, "Tenant": t, "Self": c.session.User, "Mails": s.Mails()}
	if c.member.Role == table.RoleAdmin {
		if data["Invitations"], err = s.Store.Invitations(c.ctx(), c.tenant()); err != nil {
			return nil, err
		}
	}
	return shown{name: "people.html", data: data}, nil
}

// inviteForm shows the link of a new invitation once, since its secret is not stored.
func (s *Server) inviteForm(c *call) (any, error) {
	email, err := readEmail(c.r.PostFormValue("email"))
	if err != nil {
		return nil, err
	}
	role := c.r.PostFormValue("role")
	if role != table.RoleMember && role != table.RoleAdmin {
		return nil, web.Refuse(http.StatusBadRequest, "bad_role", "the role is %.60q, but must be member or admin", role)
	}
	code, err := s.newInvitation(c, email, role)
	if err != nil {
		return nil, err
	}
	base := s.URL
	if base == "" {
		base = "http://" + c.r.Host
	}
	return shown{name: "invited.html", data: map[string]any{"Email": email, "Link": base + "/join?invitation=" + url.QueryEscape(code), "Sent": s.Mails() && s.URL != ""}}, nil
}

func (s *Server) revokeForm(c *call) (any, error) {
	t, err := keys.ParseID[keys.TokenID](c.r.PostFormValue("invitation"))
	if err != nil {
		return nil, notFound
	}
	return led("/people"), s.Store.Revoke(c.ctx(), c.tenant(), t)
}

func (s *Server) removeForm(c *call) (any, error) {
	u, err := keys.ParseID[keys.UserID](c.r.PostFormValue("user"))
	if err != nil {
		return nil, notFound
	}
	return led("/people"), s.remove(c, u)
}
