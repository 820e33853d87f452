package api

import (
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/stator-db/stator/apps/documents/export"
	"github.com/stator-db/stator/apps/documents/hook"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/web"
)

// exportResults sends the results of all documents of a batch, as JSON or CSV. It
// reads some documents at a time, so its memory is bounded.
func (s *Server) exportResults(c *call) (any, error) {
	b, err := s.batch(c)
	if err != nil {
		return nil, err
	}
	format := c.query("format")
	if format == "" {
		format = "json"
	}
	if format != "json" && format != "csv" {
		return nil, web.Refuse(http.StatusBadRequest, "bad_format", "the format is %.60q, but must be csv or json", format)
	}
	var fields []string
	if format == "csv" {
		// The columns are the fields of all documents, which are read twice.
		if err := s.eachResult(c, b, func(e export.Entry) error {
			for _, f := range e.Fields {
				if !slices.Contains(fields, f.Name) {
					fields = append(fields, f.Name)
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": b.Name + "." + format}))
	var w export.Writer
	if format == "csv" {
		c.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		if w, err = export.CSV(c.w, fields); err != nil {
			return answered{}, nil
		}
	} else {
		c.w.Header().Set("Content-Type", "application/json")
		w = export.JSON(c.w)
	}
	if err := s.eachResult(c, b, w.Write); err != nil {
		// The reply has begun, so the error cannot be sent: the connection is
		// closed, and the client sees an incomplete reply.
		s.Log.Error("an export failed", "batch", b.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
	if err := w.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return answered{}, nil
}

func (s *Server) eachResult(c *call, b table.Batch, do func(export.Entry) error) error {
	for cursor := ""; ; {
		page, err := s.Store.Documents(c.ctx(), b, cursor, perPage)
		if err != nil {
			return err
		}
		for _, d := range page.Items {
			e, err := s.Results.Entry(c.ctx(), d)
			if err != nil {
				return err
			}
			if err := do(e); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// reporting is how finished batches of a project are reported, in a request.
type reporting struct {
	Webhook  string   `json:"webhook"`
	Watchers []string `json:"watchers"`
}

// maxWatchers is the maximum number of people that get mails about a project.
const maxWatchers = 20

// setReporting replaces it. A new webhook has a new secret, which is returned once.
func (s *Server) setReporting(c *call) (any, error) {
	var in reporting
	if err := web.Read(c.w, c.r, small, &in); err != nil {
		return nil, err
	}
	return s.changeReporting(c, in)
}

func (s *Server) changeReporting(c *call, in reporting) (any, error) {
	p, err := s.project(c)
	if err != nil {
		return nil, err
	}
	r := table.Reporting{Webhook: in.Webhook, Secret: p.Secret}
	if in.Webhook != "" {
		if err := s.Hooks.Check(in.Webhook); err != nil {
			return nil, web.Refuse(http.StatusBadRequest, "bad_webhook", "%v", err)
		}
	}
	out := map[string]any{"webhook": in.Webhook}
	switch {
	case in.Webhook == "":
		r.Secret = ""
	case in.Webhook != p.Webhook:
		r.Secret = hook.NewSecret()
		out["secret"] = r.Secret
	}
	if len(in.Watchers) > maxWatchers {
		return nil, web.Refuse(http.StatusBadRequest, "bad_watchers", "%d people are to get mails, but at most %d can", len(in.Watchers), maxWatchers)
	}
	if len(in.Watchers) > 0 && !s.Mails() {
		return nil, web.Refuse(http.StatusBadRequest, "no_mail", "this server sends no mails: the operator configures them with --smtp")
	}
	for _, email := range in.Watchers {
		u, _, err := s.Store.MemberByEmail(c.ctx(), c.tenant(), email)
		if err != nil {
			return nil, web.Refuse(http.StatusBadRequest, "bad_watchers", "no member of this tenant has the email %.80q", email)
		}
		if !slices.Contains(r.Watchers, u.Email) {
			r.Watchers = append(r.Watchers, u.Email)
		}
	}
	out["watchers"] = r.Watchers
	if err := s.Store.SetReporting(c.ctx(), c.tenant(), p.ID, r); err != nil {
		return nil, fmt.Errorf("set the reporting of a project: %w", err)
	}
	return out, nil
}

// reportingForm shows a new secret once.
func (s *Server) reportingForm(c *call) (any, error) {
	in := reporting{Webhook: c.r.PostFormValue("webhook"), Watchers: lines(c.r.PostFormValue("watchers"))}
	out, err := s.changeReporting(c, in)
	if err != nil {
		return nil, err
	}
	secret, _ := out.(map[string]any)["secret"].(string)
	if secret == "" {
		return led("/projects/" + c.r.PathValue("project")), nil
	}
	return shown{name: "secret.html", data: map[string]any{"Secret": secret, "Back": "/projects/" + c.r.PathValue("project")}}, nil
}
