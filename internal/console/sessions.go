package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
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

// A session has two secrets. Browsers send cookies to all servers of a host, whatever their ports,
// but keep storage for each port: another server of the host gets the secret of the cookie, but not that
// of the page.

// signedIn is somebody who has signed in.
type signedIn struct {
	who           Identity
	page          [32]byte // the digest of the secret of the page
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

func newSecret() string {
	var random [32]byte
	rand.Read(random[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// begin returns the secrets of a new session, of its cookie and of its page.
func (s *sessions) begin(who Identity) (secret, page string) {
	secret, page = newSecret(), newSecret()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if len(s.byID) >= maxSessions {
		s.endOldest(now)
	}
	s.byID[sha256.Sum256([]byte(secret))] = &signedIn{who: who, page: sha256.Sum256([]byte(page)), created: now, used: now}
	return secret, page
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

// find returns the identity of a session and prolongs it; not ok if the session is over, or if a secret is not its own.
func (s *sessions) find(secret, page string) (Identity, bool) {
	if secret == "" {
		return Identity{}, false
	}
	id, given := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(page))
	s.mu.Lock()
	defer s.mu.Unlock()
	one, now := s.byID[id], s.now()
	if one == nil || subtle.ConstantTimeCompare(given[:], one.page[:]) != 1 {
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

// end ends a session, if both secrets are its.
func (s *sessions) end(secret, page string) {
	id, given := sha256.Sum256([]byte(secret)), sha256.Sum256([]byte(page))
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.byID[id]; one != nil && one.page == given {
		delete(s.byID, id)
	}
}

// whoIs returns who sends a request; not ok if they must sign in.
func (h *Handler) whoIs(r *http.Request) (Identity, bool) {
	if h.o.Endpoint.Asks() == NoSignIn {
		return Identity{}, true
	}
	return h.sessions.find(h.cookie(r), r.Header.Get(SessionHeader))
}

// endSession ends the session of a request, if there is one.
func (h *Handler) endSession(r *http.Request) {
	h.sessions.end(h.cookie(r), r.Header.Get(SessionHeader))
}

// cookieName is the name of the cookie of a session. It has the port, as consoles on several ports of a host
// would replace the cookies of each other. Browsers accept the prefix __Host- with TLS only.
func cookieName(r *http.Request) string {
	name := "stator-console"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if isSecure(r) {
		name = "__Host-" + name
	}
	return name
}

// cookie returns the secret in the cookie of a session; empty if there is none.
func (h *Handler) cookie(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie keeps the secret of the cookie in the browser until that is closed, for an age in
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
	who, err := h.o.Endpoint.Identify(r.Context(), given, client(r))
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
	h.endSession(r)
	secret, page := h.sessions.begin(who)
	setCookie(w, r, secret, int(sessionTime/time.Second))
	answer(w, http.StatusOK, sessionReply{Page: page, SignIn: h.o.Endpoint.Asks(), SignedIn: true, Principal: who.Principal, AccessKey: who.AccessKey, Mode: h.o.Mode, Version: h.o.Version, Endpoint: h.o.Endpoint.About()})
}

func (h *Handler) signOut(w http.ResponseWriter, r *http.Request) {
	h.endSession(r)
	setCookie(w, r, "", -1)
	answer(w, http.StatusOK, sessionReply{SignIn: h.o.Endpoint.Asks(), Mode: h.o.Mode, Version: h.o.Version})
}
