package api

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/session"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

func (s *Server) handleSignIn(mux *http.ServeMux) {
	for pattern, handle := range map[string]func(c *call) (any, error){
		"GET /signin":          s.signInPage,
		"POST /signin":         s.signInForm,
		"GET /signin/start":    s.startSignIn,
		"GET /signin/callback": s.finishSignIn,
		"POST /signin/tenant":  s.chooseTenant,
		"GET /join":            s.joinPage,
		"POST /join":           s.joinForm,
		"POST /signout":        s.signOut,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, small)
			v, err := handle(&call{w: w, r: r})
			switch v := v.(type) {
			case shown:
				if err == nil {
					s.show(w, http.StatusOK, v)
				}
			case led:
				if err == nil {
					http.Redirect(w, r, string(v), http.StatusSeeOther)
				}
			}
			if err != nil {
				s.showFault(w, r, err)
			}
		})
	}
}

// setCookie sets a cookie of this site, for a time; a negative one deletes it.
func (s *Server) setCookie(c *call, name, value string, life time.Duration) {
	http.SetCookie(c.w, &http.Cookie{
		Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: c.r.TLS != nil || strings.HasPrefix(s.URL, "https://"), MaxAge: int(life.Seconds()),
	})
}

// signInPage offers the ways to sign in, or, to a person that has signed in at the
// identity provider, the person's tenants.
func (s *Server) signInPage(c *call) (any, error) {
	data := map[string]any{"Guests": s.Guests, "Builtin": s.Trusting, "Provider": s.Provider != nil}
	if s.Provider != nil {
		if p, err := s.Verifier.Person(c.ctx(), token(c.r)); err == nil {
			tenants, err := s.tenantsOf(c, p)
			if err != nil {
				return nil, err
			}
			data["Person"], data["Tenants"] = p, tenants
		}
	}
	return shown{name: "signin.html", data: data}, nil
}

// tenantsOf returns the tenants of a person.
func (s *Server) tenantsOf(c *call, p session.Person) ([]table.Tenant, error) {
	members, err := s.Store.TenantsOf(c.ctx(), p.User)
	if err != nil {
		return nil, err
	}
	var all []table.Tenant
	for _, m := range members {
		if t, err := s.Store.Tenant(c.ctx(), m.Tenant); err == nil {
			all = append(all, t)
		}
	}
	return all, nil
}

func (s *Server) signInForm(c *call) (any, error) {
	signed, err := c.r.PostFormValue("token"), error(nil)
	if s.Trusting {
		signed, err = s.signed(c, c.r.PostFormValue("email"), c.r.PostFormValue("tenant"))
	} else if _, no := s.Verifier.Session(c.ctx(), signed); no != nil {
		err = web.Refuse(http.StatusUnauthorized, "invalid_session", "the token is expired or invalid")
	}
	if err != nil {
		return nil, err
	}
	s.setCookie(c, cookie, signed, signInLife)
	return led("/"), nil
}

// attemptCookie holds a sign-in at the identity provider until its end.
const attemptCookie = "signin"

// attempt is the content of the cookie.
type attempt struct {
	session.Attempt
	Then string // the page to return to
}

var noProvider = web.Refuse(http.StatusNotFound, "no_provider", "no identity provider is configured")

// startSignIn sends the person to the identity provider.
func (s *Server) startSignIn(c *call) (any, error) {
	if s.Provider == nil {
		return nil, noProvider
	}
	to, begun := s.Provider.Begin()
	a := attempt{Attempt: begun}
	if then := c.query("invitation"); then != "" && len(then) < 200 {
		a.Then = "/join?invitation=" + url.QueryEscape(then)
	}
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	s.setCookie(c, attemptCookie, base64.RawURLEncoding.EncodeToString(text), 10*time.Minute)
	return led(to), nil
}

// finishSignIn is where the person returns. If the person has one tenant, or the
// provider names one, the session is for it; else the person chooses.
func (s *Server) finishSignIn(c *call) (any, error) {
	if s.Provider == nil {
		return nil, noProvider
	}
	no := web.Refuse(http.StatusForbidden, "no_sign_in", "signing in failed: begin again at the sign-in page")
	var a attempt
	kept, err := c.r.Cookie(attemptCookie)
	if err != nil {
		return nil, no
	}
	text, err := base64.RawURLEncoding.DecodeString(kept.Value)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return nil, no
	}
	s.setCookie(c, attemptCookie, "", -time.Second)
	p, named, err := s.Provider.Finish(c.ctx(), a.Attempt, c.query("state"), c.query("code"))
	if err != nil {
		s.Log.Warn("a sign-in failed", "error", err, "provider", c.query("error"))
		return nil, no
	}
	tenants, err := s.tenantsOf(c, p)
	if err != nil {
		return nil, err
	}
	var tenant *keys.Tenant
	for i := range tenants {
		if len(tenants) == 1 || tenants[i].ID.String() == named {
			tenant = &tenants[i].ID
		}
	}
	signed, err := s.Issuer.Issue(p, tenant)
	if err != nil {
		return nil, err
	}
	s.setCookie(c, cookie, signed, signInLife)
	switch {
	case strings.HasPrefix(a.Then, "/join?"):
		return led(a.Then), nil
	case tenant == nil:
		return led("/signin"), nil
	}
	return led("/"), nil
}

// chooseTenant changes the session to another tenant of the person.
func (s *Server) chooseTenant(c *call) (any, error) {
	if s.Provider == nil {
		return nil, noProvider
	}
	p, err := s.person(c)
	if err != nil {
		return nil, err
	}
	members, err := s.Store.TenantsOf(c.ctx(), p.User)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Tenant.String() == c.r.PostFormValue("tenant") {
			signed, err := s.Issuer.Issue(p, &m.Tenant)
			if err != nil {
				return nil, err
			}
			s.setCookie(c, cookie, signed, signInLife)
			return led("/"), nil
		}
	}
	return nil, web.Refuse(http.StatusForbidden, "no_member", "you are not a member of this tenant")
}

// joinPage offers to accept an invitation.
func (s *Server) joinPage(c *call) (any, error) {
	data := map[string]any{"Invitation": c.query("invitation")}
	if !s.Trusting {
		p, err := s.Verifier.Person(c.ctx(), token(c.r))
		data["SignIn"], data["Person"] = err != nil, p
	}
	return shown{name: "join.html", data: data}, nil
}

func (s *Server) joinForm(c *call) (any, error) {
	_, signed, err := s.join(c, c.r.PostFormValue("invitation"), c.r.PostFormValue("name"))
	if err != nil {
		return nil, err
	}
	if signed != "" {
		s.setCookie(c, cookie, signed, signInLife)
	}
	return led("/"), nil
}

func (s *Server) signOut(c *call) (any, error) {
	s.setCookie(c, cookie, "", -time.Second)
	return led("/signin"), nil
}
