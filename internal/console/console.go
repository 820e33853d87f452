// Package console serves the console: pages on which people see and change the data of an
// endpoint.
//
// It knows nothing of DynamoDB but which operations read. An Endpoint answers the requests of
// the page, with the permissions of the person who has signed in; a Workbench those about
// designs. DESIGN.md says how a view is added.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

// Base is the path below which everything of the console is.
const Base = "/console/"

// Mode is what a console lets people do.
type Mode string

// Modes of a console.
const (
	ReadOnly  Mode = "read"  // requests that change something are rejected
	ReadWrite Mode = "write" // they are accepted when the person has switched changes on
)

// Endpoint answers the requests of the page.
type Endpoint interface {
	// Do answers a request of the API as somebody. It returns ErrSignedOut if the key of the
	// identity is not valid any more.
	Do(ctx context.Context, who Identity, r Request) (Reply, error)
	// Permit returns the error of a request that the console answers itself if somebody may not do an
	// action; an empty one needs no permission. It also returns ErrSignedOut, and the id of the request.
	Permit(ctx context.Context, who Identity, r Request, action string) (id string, err error)
	// Identify returns the identity of credentials that a client has sent, or ErrCredentials.
	Identify(ctx context.Context, c Credentials, from Client) (Identity, error)
	// Asks says what a person must give to sign in. It never changes.
	Asks() SignIn
	// About says what the page shows of the endpoint.
	About() About
	// Now returns the time of the endpoint; zero if it is not known.
	Now() time.Time
}

// SignIn is what a person must give to sign in.
type SignIn string

// Ways to sign in.
const (
	NoSignIn    SignIn = "none"  // everybody who reaches the console may use it
	SignInKey   SignIn = "key"   // an access key and its secret
	SignInToken SignIn = "token" // a secret that the command has printed
)

// Credentials are what a person gives to sign in.
type Credentials struct {
	AccessKey    string `json:"accessKey"`
	Secret       string `json:"secret"`
	SessionToken string `json:"sessionToken"`
}

// Identity is somebody who has signed in.
type Identity struct {
	AccessKey string
	Principal string
	Proof     [32]byte    // a digest of the secret, so that the session ends when that is replaced
	Expired   func() bool // reports whether the key may not be used any more; nil if it can always be
}

// About is what the page shows of an endpoint.
type About struct {
	URL    string `json:"url"` // for code that the page generates; empty for the address of the page
	Region string `json:"region"`
	AWS    bool   `json:"aws"`    // it is AWS, where requests cost money
	Notice string `json:"notice"` // shown on the first page
}

// Client is the browser that has sent a request.
type Client struct {
	Remote, Host, UserAgent string
	Secure                  bool // the connection has TLS
}

// Request is a request of the page.
type Request struct {
	Target string // as in X-Amz-Target
	Body   []byte
	Client
}

// Reply is the reply to a Request.
type Reply struct {
	Status int
	ID     string // of the request
	Body   []byte
}

var (
	// ErrSignedOut is returned when a session is over.
	ErrSignedOut = errors.New("the session is over")
	// ErrCredentials is returned for credentials that are not valid.
	ErrCredentials = errors.New("the credentials are not valid")
)

// Options are the options of a Handler.
type Options struct {
	Endpoint    Endpoint
	Mode        Mode
	AcceptsHost func(host string) bool // whether a request may have this Host
	Now         func() time.Time
	Version     string
	Workbench   Workbench // answers requests about models; nil for none
}

// Workbench answers requests of pages about access-pattern models, whose targets begin with
// WorkbenchTarget. An *apierror.Error is the reply.
type Workbench interface {
	// Action returns the action that policies must allow for a target; empty if it needs no permission.
	Action(target string) string
	Do(done <-chan struct{}, target string, body []byte) (any, error)
}

// WorkbenchTarget is what the targets of requests to a Workbench begin with.
const WorkbenchTarget = "Workbench."

// Handler serves the console.
type Handler struct {
	o        Options
	files    *files
	sessions *sessions
	slots    chan struct{} // of requests to the endpoint in flight
}

// timeHeader is the time of the endpoint in milliseconds since 1970.
const timeHeader = "X-Stator-Time"

// maxBody is the size limit of a request of the page. Its largest are transactions of 4 MB.
const maxBody = 5 << 20

// maxInFlight is the most requests to the endpoint that are read or answered at a time.
const maxInFlight = 16

// New returns a console.
func New(o Options) *Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{o: o, files: newFiles(o.Endpoint.Asks()), sessions: newSessions(o.Now), slots: make(chan struct{}, maxInFlight)}
}

// ServeHTTP serves everything below Base, and Base without its last slash.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if r.Host == "" || !h.o.AcceptsHost(r.Host) {
		http.Error(w, "requests for this host are rejected: open the address that was printed, or allow the host with stator serve --allow-host", http.StatusForbidden)
		return
	}
	path := strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(Base, "/"))
	switch {
	case path == "":
		http.Redirect(w, r, Base, http.StatusPermanentRedirect)
	case path == "/":
		h.page(w, r)
	case path == "/api" || path == "/api/session":
		h.guarded(w, r, path)
	default:
		h.files.serve(w, r, strings.TrimPrefix(path, "/"))
	}
}

// page serves the document. Links of other sites may lead to it; it cannot be put in a frame.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); isForeign(site) && r.Header.Get("Sec-Fetch-Dest") != "document" {
		foreign(w)
		return
	}
	h.files.servePage(w, r)
}

// guarded serves requests that tell or change something. Only our own page can send them: a page
// of another site cannot set Header without a preflight, which is never granted.
func (h *Handler) guarded(w http.ResponseWriter, r *http.Request, path string) {
	if !fromOwnPage(r) {
		foreign(w)
		return
	}
	if now := h.o.Endpoint.Now(); !now.IsZero() {
		w.Header().Set(timeHeader, strconv.FormatInt(now.UnixMilli(), 10))
	}
	switch {
	case path == "/api" && r.Method == http.MethodPost:
		h.api(w, r)
	case path == "/api/session" && r.Method == http.MethodGet:
		h.describeSession(w, r)
	case path == "/api/session" && r.Method == http.MethodPost:
		h.signIn(w, r)
	case path == "/api/session" && r.Method == http.MethodDelete:
		h.signOut(w, r)
	default:
		http.Error(w, "not allowed", http.StatusMethodNotAllowed)
	}
}

// api passes a request on to the endpoint.
func (h *Handler) api(w http.ResponseWriter, r *http.Request) {
	who, ok := h.whoIs(r)
	if !ok {
		h.signedOut(w, r)
		return
	}
	select { // not before: strangers who send slowly would keep people from signing in
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-r.Context().Done():
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fault(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLargeException", "The request is larger than 5 MB.")
		return
	}
	target := r.Header.Get("X-Amz-Target")
	if !reads(target, body) {
		switch {
		case h.o.Mode != ReadWrite:
			fault(w, http.StatusForbidden, "ConsoleReadOnly", "This console only reads: start stator serve with --console=write, or stator console with --mode write, to change something.")
			return
		case r.Header.Get(Header) != string(ReadWrite):
			fault(w, http.StatusForbidden, "ConsoleReadOnly", "Changes are switched off: switch them on at the top of the page.")
			return
		}
	}
	answerer := h.o.Endpoint.Do
	if strings.HasPrefix(target, WorkbenchTarget) && h.o.Workbench != nil {
		answerer = h.design
	}
	reply, err := answerer(r.Context(), who, Request{target, body, client(r)})
	if reply.ID != "" {
		w.Header().Set("X-Amzn-Requestid", reply.ID)
	}
	var known *apierror.Error
	switch {
	case errors.Is(err, ErrSignedOut):
		h.signedOut(w, r)
	case errors.As(err, &known):
		fault(w, known.Status, known.Code, known.Message)
	case err != nil && r.Context().Err() != nil: // the page is gone
	case err != nil:
		fault(w, http.StatusBadGateway, "EndpointUnreachable", err.Error())
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body)
	}
}

// design answers a request about designs, of which the endpoint only decides who may send it.
func (h *Handler) design(ctx context.Context, who Identity, r Request) (reply Reply, err error) {
	if reply.ID, err = h.o.Endpoint.Permit(ctx, who, r, h.o.Workbench.Action(r.Target)); err != nil {
		return reply, err
	}
	found, err := h.o.Workbench.Do(ctx.Done(), r.Target, r.Body)
	if err == nil {
		reply.Status = http.StatusOK
		reply.Body, err = json.Marshal(found)
	}
	if _, known := errors.AsType[*apierror.Error](err); err != nil && !known {
		err = &apierror.Error{Code: "InternalServerError", Status: http.StatusInternalServerError, Message: err.Error()}
	}
	return reply, err
}

// signedOut answers a request without a session.
func (h *Handler) signedOut(w http.ResponseWriter, r *http.Request) {
	h.endSession(r)
	fault(w, http.StatusUnauthorized, "ConsoleSignedOut", "Sign in to go on.")
}

// sessionReply says who has signed in, and what the console may do.
type sessionReply struct {
	SignIn    SignIn `json:"signIn"`
	SignedIn  bool   `json:"signedIn"`
	Principal string `json:"principal,omitempty"`
	AccessKey string `json:"accessKey,omitempty"`
	Mode      Mode   `json:"mode"`
	Version   string `json:"version"`
	Endpoint  About  `json:"endpoint"`
	Page      string `json:"page,omitempty"` // the secret of the page, when somebody signs in
}

func (h *Handler) describeSession(w http.ResponseWriter, r *http.Request) {
	who, ok := h.whoIs(r)
	reply := sessionReply{SignIn: h.o.Endpoint.Asks(), SignedIn: ok, Mode: h.o.Mode, Version: h.o.Version}
	if ok {
		reply.Principal, reply.AccessKey, reply.Endpoint = who.Principal, who.AccessKey, h.o.Endpoint.About()
	}
	answer(w, http.StatusOK, reply)
}

// fault answers with an error in the form of the API.
func fault(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]string{"__type": code, "message": message})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the page is gone
}

func client(r *http.Request) Client {
	return Client{Remote: remote(r), Host: r.Host, UserAgent: r.UserAgent(), Secure: isSecure(r)}
}

// remote returns the IP address of a client.
func remote(r *http.Request) string {
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return at.Addr().Unmap().WithZone("").String()
	}
	return ""
}
