// Package mail sends mails by SMTP.
package mail

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

// Sender sends mails by a server.
type Sender struct {
	address, host string
	implicit      bool // TLS from the start
	auth          smtp.Auth
	from          netmail.Address
	now           func() time.Time
}

// New returns a sender for a URL such as smtp://user:password@host:587 or
// smtps://host:465. With smtp, TLS is used if the server offers it; a password is only
// sent with TLS.
func New(server, from string, now func() time.Time) (*Sender, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || (u.Scheme != "smtp" && u.Scheme != "smtps") || u.Path != "" {
		return nil, errors.New("the mail server must be a URL such as smtp://user:password@host:587, or smtps://host:465")
	}
	a, err := netmail.ParseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("the sender of mails is %q, but must be one such as Documents <documents@example.com>", from)
	}
	s := &Sender{address: u.Host, host: u.Hostname(), implicit: u.Scheme == "smtps", from: *a, now: now}
	if u.Port() == "" {
		s.address = net.JoinHostPort(s.host, map[bool]string{true: "465", false: "587"}[s.implicit])
	}
	if password, ok := u.User.Password(); ok {
		s.auth = smtp.PlainAuth("", u.User.Username(), password, s.host)
	}
	return s, nil
}

// timeout is the time limit of one mail.
const timeout = 30 * time.Second

// ErrRefused is returned if the server refuses the address of the person for good.
var ErrRefused = errors.New("the mail server refuses the address")

// Send sends a text to one person.
func (s *Sender) Send(ctx context.Context, to, subject, text string) error {
	address, err := netmail.ParseAddress(to)
	if err != nil {
		return fmt.Errorf("send a mail: the address %.80q is not valid", to)
	}
	if err := s.send(ctx, address.Address, s.message(address.Address, subject, text)); err != nil {
		return fmt.Errorf("send a mail by %s: %w", s.address, err)
	}
	return nil
}

func (s *Sender) send(ctx context.Context, to string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	settings := &tls.Config{ServerName: s.host}
	if s.implicit {
		conn = tls.Client(conn, settings)
	}
	c, err := smtp.NewClient(conn, s.host)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer func() { _ = c.Close() }() // fails after Quit, which closes it
	if ok, _ := c.Extension("STARTTLS"); ok && !s.implicit {
		if err := c.StartTLS(settings); err != nil {
			return err
		}
	}
	if s.auth != nil {
		if err := c.Auth(s.auth); err != nil {
			return err
		}
	}
	if err := c.Mail(s.from.Address); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		var reply *textproto.Error
		if errors.As(err, &reply) && reply.Code >= 500 {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return c.Quit()
}

// message returns the mail. No value can add a header: the subject is encoded, and
// addresses were parsed.
func (s *Sender) message(to, subject, text string) []byte {
	subject = strings.Join(strings.Fields(subject), " ")
	domain := "localhost"
	if i := strings.LastIndexByte(s.from.Address, '@'); i >= 0 {
		domain = s.from.Address[i+1:]
	}
	var m strings.Builder
	for _, h := range [][2]string{
		{"From", s.from.String()}, {"To", (&netmail.Address{Address: to}).String()}, {"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", s.now().Format(time.RFC1123Z)}, {"Message-ID", "<" + rand.Text() + "@" + domain + ">"},
		{"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"}, {"Auto-Submitted", "auto-generated"},
	} {
		m.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	m.WriteString("\r\n")
	w := quotedprintable.NewWriter(&m)
	_, _ = w.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))) // a strings.Builder never fails
	_ = w.Close()
	return []byte(m.String())
}
