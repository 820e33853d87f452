package documents

import (
	"bytes"
	"context"
	"fmt"

	"github.com/go-pdf/fpdf"

	"github.com/stator-db/stator/apps/documents/api"
	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/table"
)

// demoExtraction extracts the fields of invoices.
const demoExtraction = `{"fields":[
{"name":"number","labels":["Invoice number","Invoice no"],"pattern":"[A-Z]{2}-\\d{4,}","required":true},
{"name":"date","type":"date","labels":["Date"],"required":true},
{"name":"customer","labels":["Bill to","Customer"],"required":true},
{"name":"total","type":"amount","labels":["Total","Amount due"],"required":true},
{"name":"contact","type":"email","labels":["Contact"]}]}`

// Demo creates two tenants with a project each, and puts invoices into their
// inboxes.
func (s *System) Demo(ctx context.Context) error {
	for i, name := range []string{"Acme Paper", "Globex Freight"} {
		email := fmt.Sprintf("ann@%s.example", []string{"acme", "globex"}[i])
		p := s.API.Issuer.Person(email, "Ann")
		t, err := s.Store.CreateTenant(ctx, name, "team", &table.User{ID: p.User, Email: email, Name: "Ann"})
		if err != nil {
			return err
		}
		project, err := s.Store.CreateProject(ctx, t.ID, "Invoices 2026")
		if err != nil {
			return err
		}
		w, err := s.Store.CreateWorkflow(ctx, table.Workflow{
			Tenant: t.ID, Project: project.ID, Name: "Invoices", Extraction: demoExtraction,
			ConfidenceThreshold: 0.55, ReviewThreshold: 0.85,
		})
		if err != nil {
			return err
		}
		s.API.Guests = append(s.API.Guests, api.Guest{Email: email, Tenant: t.ID.String(), Of: name})
		folder := ingest.Inbox + t.ID.String() + "/" + project.ID.String() + "/" + w.ID.String() + "/November/"
		for name, data := range invoices(i + 1) {
			if err := s.Bucket.WriteAll(ctx, folder+name, data, nil); err != nil {
				return fmt.Errorf("put an invoice into the inbox: %w", err)
			}
		}
	}
	return nil
}

// invoices returns valid invoices, some that need review, and some that fail.
func invoices(of int) map[string][]byte {
	all := make(map[string][]byte)
	for n := range 12 {
		text := fmt.Sprintf("Northwind Supplies\nInvoice number: NW-%d%03d\nDate: 2026-11-%02d\nBill to: Customer %d\nContact: billing@northwind.example\n\n10 boxes of paper   120.00\nTotal: EUR %d.50\n", of, n, n+1, n, 100+n*7)
		switch n {
		case 3:
			text = fmt.Sprintf("Northwind Supplies\nInvoice no NW-%d%03d\nDate\n7.11.2026\nCustomer Somebody\nAmount due\nabout 300\n", of, n)
		case 5:
			text = fmt.Sprintf("INVOICE\nInvoice no: NW-%d%03d\nDate: in November\nCustomer: Initech\nTotal: 9O.5O\n", of, n)
		case 8:
			text = "Dear all, the picnic is on Sunday. Bring hats.\n"
		case 9, 10:
			all[fmt.Sprintf("invoice-%02d.pdf", n)] = pdfOf(text)
			continue
		}
		all[fmt.Sprintf("invoice-%02d.txt", n)] = []byte(text)
	}
	all["broken.pdf"] = []byte("%PDF-1.4\nthis is not what it says\n")
	all["november.csv"] = []byte("Invoice number,Date,Customer,Total\nNW-90001,2026-11-01,Initech,12.50\nNW-90002,2026-11-02,Hooli,80.00\n")
	return all
}

// pdfOf returns a PDF with lines of text.
func pdfOf(text string) []byte {
	page := fpdf.New("P", "mm", "A4", "")
	page.AddPage()
	page.SetFont("Helvetica", "", 11)
	for line := range bytes.Lines([]byte(text)) {
		page.CellFormat(0, 7, string(bytes.TrimSpace(line)), "", 1, "", false, 0, "")
	}
	var out bytes.Buffer
	if err := page.Output(&out); err != nil {
		panic(fmt.Sprintf("a PDF of plain text cannot be created: %v", err))
	}
	return out.Bytes()
}
