package extract

import (
	"regexp"
	"strings"
	"time"
)

// Type is the type of a field's value.
type Type string

// types finds a value of a type in a text, and normalises it.
var types = map[Type]func(text string) (string, bool){
	"":        anyText,
	"text":    anyText,
	"address": anyText, // lines below one another, joined by commas
	"number":  number,
	"amount":  number,
	"date":    date,
	"email":   email,
}

// Types are the types that a field can have.
var Types = []Type{"text", "address", "number", "amount", "date", "email"}

func anyText(text string) (string, bool) {
	text = strings.TrimSpace(text)
	return text, text != ""
}

var numberForm = regexp.MustCompile(`[-+]?\d(?:[\d.,'’\x{a0} ]*\d)?`)

// followed matches what follows an invalid number such as 9O.5O: letters other
// than a currency's.
var followed = regexp.MustCompile(`^[A-Za-z](?:[^A-Z]|[A-Z][^A-Z]|$)|^[A-Za-z]{4}`)

// number returns the digits of a number, with a point for the decimals. In
// "1.234,50" and "1,234.50" the last separator is the decimal one. A single
// separator followed by three digits separates thousands.
func number(text string) (string, bool) {
	n := ""
	for _, at := range numberForm.FindAllStringIndex(text, 20) {
		if !followed.MatchString(text[at[1]:]) {
			n = text[at[0]:at[1]]
			break
		}
	}
	if n == "" {
		return "", false
	}
	n = strings.NewReplacer(" ", "", "\u00a0", "", "'", "", "’", "").Replace(n)
	last := strings.LastIndexAny(n, ".,")
	if last < 0 {
		return n, true
	}
	sign := n[last : last+1]
	decimals := len(n) - last - 1
	plain := strings.NewReplacer(".", "", ",", "")
	whole := strings.TrimLeft(n[:last], "+-")
	thousands := decimals == 3 && len(whole) <= 3 && whole[0] != '0' && !strings.ContainsAny(whole, ".,")
	if strings.Count(n, sign) > 1 || thousands {
		return plain.Replace(n), true
	}
	return plain.Replace(n[:last]) + "." + n[last+1:], true
}

var (
	dateForm    = regexp.MustCompile(`\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{1,2} [A-Za-z]{3,9} \d{4}|[A-Za-z]{3,9} \d{1,2}, \d{4}`)
	dateLayouts = []string{"2006-01-02", "2.1.2006", "2/1/2006", "1/2/2006", "2 January 2006", "2 Jan 2006", "January 2, 2006", "Jan 2, 2006"}
)

func date(text string) (string, bool) {
	found := dateForm.FindString(text)
	if found == "" {
		return "", false
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, found); err == nil {
			return t.Format(time.DateOnly), true
		}
	}
	return "", false
}

// emailForm allows spaces around the @, which OCR often adds.
var emailForm = regexp.MustCompile(`[\w.+-]+ ?@ ?[\w-]+(?:\.[\w-]+)+`)

func email(text string) (string, bool) {
	found := strings.ReplaceAll(emailForm.FindString(text), " ", "")
	return strings.ToLower(found), found != ""
}
