package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// How long a session lasts: since its last request, and at all.
const (
	idleTime    = 30 * time.Minute
	sessionTime = 12 * time.Hour
)

// maxSessions bounds the memory of sessions. The one that was idle longest ends first.
const maxSessions = 1000

// signedIn is somebody who has signed in.
type signedIn struct {
	who           Identity
	created, used time.Time
}

// sessions holds the sessions by the digest of the secret in their cookies.
type sessions struct {
	now func() time.Time

	mu   sync.Mutex
	byID map[[32]byte]*signedIn
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, byID: make(map[[32]byte]*signedIn)}
}

// begin returns the secret of a new session.
func (s *sessions) begin(who Identity) string {
	var random [32]byte
	rand.Read(random[:]) // it never fails
	secret := base64.RawURLEncoding.EncodeToString(random[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if len(s.byID) >= maxSessions {
		s.endOldest(now)
	}
	s.byID[sha256.Sum256([]byte(secret))] = &signedIn{who: who, created: now, used: now}
	return secret
}

// endOldest ends sessions that are over, or else the one that was idle longest.
func (s *sessions) endOldest(now time.Time) {
	var oldest [32]byte
	var since time.Time
	for id, one := range s.byID {
		if one.over(now) {
			delete(s.byID, id)
		} else if since.IsZero() || one.used.Before(since) {
			oldest, since = id, one.used
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, oldest)
	}
}

// find returns who has begun a session, which it prolongs; not ok if it is over.
func (s *sessions) find(secret string) (Identity, bool) {
	if secret == "" {
		return Identity{}, false
	}
	id := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	one, now := s.byID[id], s.now()
	if one == nil {
		return Identity{}, false
	}
	if one.over(now) {
		delete(s.byID, id)
		return Identity{}, false
	}
	one.used = now
	return one.who, true
}

func (s *signedIn) over(now time.Time) bool {
	return now.Sub(s.used) >= idleTime || now.Sub(s.created) >= sessionTime || s.who.Expired != nil && s.who.Expired()
}

// end ends a session.
func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(secret)))
}

// whoIs returns who sends a request; not ok if they must sign in.
func (h *Handler) whoIs(r *http.Request) (Identity, bool) {
	if h.o.Endpoint.Asks() == NoSignIn {
		return Identity{}, true
	}
	return h.sessions.find(h.cookie(r))
}

// cookieName is the name of the cookie of a session. Browsers accept the prefix __Host- with TLS only.
func cookieName(r *http.Request) string {
	if isSecure(r) {
		return "__Host-stator-console"
	}
	return "stator-console"
}

// cookie returns the secret of a session; empty if there is none.
func (h *Handler) cookie(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie keeps the secret of a session in the browser until that is closed, for an age in
// seconds; -1 removes it. A cookie with the prefix __Host- must have the path /.
func setCookie(w http.ResponseWriter, r *http.Request, secret string, age int) {
	c := &http.Cookie{Name: cookieName(r), Value: secret, Path: "/console", MaxAge: age, HttpOnly: true, Secure: isSecure(r), SameSite: http.SameSiteStrictMode}
	if isSecure(r) {
		c.Path = "/"
	}
	http.SetCookie(w, c)
}

// maxCredentials is the size limit of credentials; session tokens of AWS have a few kB.
const maxCredentials = 64 << 10

func (h *Handler) signIn(w http.ResponseWriter, r *http.Request) {
	if !isSecure(r) && !isLoopback(r) {
		fault(w, http.StatusForbidden, "ConsoleNeedsTLS", "Secrets are not accepted over plain HTTP from another machine: start the server with --tls-cert and --tls-key.")
		return
	}
	var given Credentials
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCredentials)).Decode(&given); err != nil {
		fault(w, http.StatusBadRequest, "SerializationException", "The credentials could not be read.")
		return
	}
	who, err := h.o.Endpoint.Identify(r.Context(), given)
	switch {
	case errors.Is(err, ErrCredentials):
		message := "This key is not valid: check the access key, the secret, and the session token of a temporary key."
		if h.o.Endpoint.Asks() == SignInToken {
			message = "This token is not valid: open the address that stator console has printed."
		}
		fault(w, http.StatusUnauthorized, "ConsoleSignedOut", message)
		return
	case err != nil:
		fault(w, http.StatusBadGateway, "EndpointUnreachable", err.Error())
		return
	}
	h.sessions.end(h.cookie(r))
	setCookie(w, r, h.sessions.begin(who), int(sessionTime/time.Second))
	answer(w, http.StatusOK, sessionReply{SignIn: h.o.Endpoint.Asks(), SignedIn: true, Principal: who.Principal, AccessKey: who.AccessKey, Mode: h.o.Mode, Version: h.o.Version, Endpoint: h.o.Endpoint.About()})
}

func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	h.sessions.end(h.cookie(r))
	setCookie(w, r, "", -1)
	answer(w, http.StatusOK, sessionReply{SignIn: h.o.Endpoint.Asks(), Mode: h.o.Mode, Version: h.o.Version})
}
