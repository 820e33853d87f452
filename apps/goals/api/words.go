package api

import (
	"html/template"
	"strings"
	"time"

	"github.com/stator-db/stator/apps/goals"
)

// language is a language of the app: its words, and how it writes numbers and dates.
type language struct {
	Tag   string
	words map[string]string

	point, thousands string
	symbolLast       bool   // 1,00 € instead of € 1,00
	symbolSpace      bool   // R$ 1,00 instead of $1.00
	percentSpace     bool   // 8 % instead of 8%
	date             string // layout of dates and of times
	months           []string
	monthOf          string // between a month and its year
}

// nbsp keeps a number and its symbol on one line.
const nbsp = "\u00a0"

var languages = []*language{
	{
		Tag: "en", point: ".", thousands: ",", date: "Jan 2, 2006 15:04 UTC", monthOf: " ",
		months: []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"},
		words: map[string]string{
			"title": "Saving goals", "hello": "Hello", "saved": "Saved this month", "pendingTotal": "includes deposits that await confirmation", "allConfirmed": "all confirmed",
			"aYear": "a year", "of": "of", "PENDING_CONFIRMATION": "Pending confirmation", "COMPLETED": "Reached", "IN_PROGRESS": "On the way", "NOT_STARTED": "Not started",
			"yours": "Your goal", "choose": "Choose", "confirmed": "confirmed so far", "invested": "invested at", "asOf": "Confirmed as of", "accomplished": "Accomplished",
			"missing": "Deposits of the last minutes may be missing. They appear as soon as our systems are connected again.",
			"bank":    "The bank's systems", "bankText": "A deposit is an event on the Kafka topic. Its reconciliation can fail; the nightly batch confirms the others.",
			"deposit": "Deposit", "fail": "Fail the last deposit", "night": "Night", "runNight": "Run the nightly batch now", "others": "Other customers", "json": "The app's reply as JSON", "amount": "amount",
			"intro": "What a customer sees in the app: the goals that the nightly run computed, and the deposits that have arrived since.", "person": "Person", "open": "Open", "samples": "Some customers of this demonstration", "metrics": "Metrics", "error": "Error", "start": "Start",
		},
	},
	{
		Tag: "es", point: ",", thousands: ".", symbolLast: true, symbolSpace: true, percentSpace: true, date: "2/1/2006 15:04 UTC", monthOf: " de ",
		months: []string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"},
		words: map[string]string{
			"title": "Metas de ahorro", "hello": "Hola", "saved": "Ahorrado este mes", "pendingTotal": "incluye depósitos pendientes de confirmación", "allConfirmed": "todo confirmado",
			"aYear": "anual", "of": "de", "PENDING_CONFIRMATION": "Pendiente de confirmación", "COMPLETED": "Alcanzada", "IN_PROGRESS": "En camino", "NOT_STARTED": "Sin empezar",
			"yours": "Tu meta", "choose": "Elegir", "confirmed": "confirmados hasta ahora", "invested": "invertidos al", "asOf": "Confirmado hasta el", "accomplished": "Metas alcanzadas",
			"missing": "Pueden faltar los depósitos de los últimos minutos. Aparecerán en cuanto nuestros sistemas vuelvan a conectarse.",
			"bank":    "Los sistemas del banco", "bankText": "Un depósito es un evento del tema de Kafka. Su conciliación puede fallar; el proceso nocturno confirma los demás.",
			"deposit": "Depositar", "fail": "Rechazar el último depósito", "night": "Noche", "runNight": "Ejecutar ahora el proceso nocturno", "others": "Otros clientes", "json": "La respuesta de la app en JSON", "amount": "importe",
			"intro": "Lo que un cliente ve en la app: las metas que calculó el proceso nocturno y los depósitos que han llegado desde entonces.", "person": "Persona", "open": "Abrir", "samples": "Algunos clientes de esta demostración", "metrics": "Métricas", "error": "Error", "start": "Inicio",
		},
	},
	{
		Tag: "pt-BR", point: ",", thousands: ".", symbolSpace: true, date: "02/01/2006 15:04 UTC", monthOf: " de ",
		months: []string{"janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro", "novembro", "dezembro"},
		words: map[string]string{
			"title": "Metas de economia", "hello": "Olá", "saved": "Guardado neste mês", "pendingTotal": "inclui depósitos aguardando confirmação", "allConfirmed": "tudo confirmado",
			"aYear": "ao ano", "of": "de", "PENDING_CONFIRMATION": "Aguardando confirmação", "COMPLETED": "Alcançada", "IN_PROGRESS": "Em andamento", "NOT_STARTED": "Não iniciada",
			"yours": "Sua meta", "choose": "Escolher", "confirmed": "confirmados até agora", "invested": "investidos a", "asOf": "Confirmado até", "accomplished": "Metas alcançadas",
			"missing": "Podem faltar os depósitos dos últimos minutos. Eles aparecem assim que nossos sistemas voltarem a se conectar.",
			"bank":    "Os sistemas do banco", "bankText": "Um depósito é um evento no tópico do Kafka. A conciliação pode falhar; o processo noturno confirma os demais.",
			"deposit": "Depositar", "fail": "Rejeitar o último depósito", "night": "Noite", "runNight": "Executar agora o processo noturno", "others": "Outros clientes", "json": "A resposta do app em JSON", "amount": "valor",
			"intro": "O que um cliente vê no app: as metas calculadas pelo processo noturno e os depósitos recebidos desde então.", "person": "Pessoa", "open": "Abrir", "samples": "Alguns clientes desta demonstração", "metrics": "Métricas", "error": "Erro", "start": "Início",
		},
	},
}

// languageOf returns the language for a tag such as pt-BR, es-MX or en; English for
// others.
func languageOf(tag string) *language {
	base, _, _ := strings.Cut(strings.ToLower(tag), "-")
	for _, l := range languages {
		if own, _, _ := strings.Cut(strings.ToLower(l.Tag), "-"); own == base {
			return l
		}
	}
	return languages[0]
}

// accepted returns the first language of a browser that the app has.
func accepted(header string) *language {
	for _, one := range strings.Split(header, ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(one), ";")
		if l := languageOf(tag); l != languages[0] || strings.HasPrefix(strings.ToLower(tag), "en") {
			return l
		}
	}
	return languages[0]
}

// Word returns a text of the app.
func (l *language) Word(key string) string { return l.words[key] }

// number writes a decimal number, such as 1234.50, with the separators of the language.
func (l *language) number(s string) string {
	whole, fraction, point := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + l.thousands + whole[i:]
	}
	if !point {
		return whole
	}
	return whole + l.point + fraction
}

// symbols of currencies; others are written with their code.
var symbols = map[string]string{"USD": "$", "EUR": "€", "BRL": "R$", "GBP": "£"}

// Money writes an amount of a currency.
func (l *language) Money(currency string, m goals.Money) string {
	symbol, space := symbols[currency], ""
	if symbol == "" {
		symbol, space = currency, nbsp
	}
	if l.symbolSpace {
		space = nbsp
	}
	if l.symbolLast {
		return l.number(m.String()) + space + symbol
	}
	return symbol + space + l.number(m.String())
}

// Rate writes a rate, such as 8 % or 12.5 %.
func (l *language) Rate(r goals.Rate) string {
	s := l.number(strings.TrimSuffix(strings.TrimRight(goals.Money(r).String(), "0"), "."))
	if l.percentSpace {
		return s + nbsp + "%"
	}
	return s + "%"
}

// Clock writes a stored time.
func (l *language) Clock(stored string) string {
	t, err := time.Parse(time.RFC3339Nano, stored)
	if err != nil {
		return stored
	}
	return t.UTC().Format(l.date)
}

// Month writes a month such as 2026-04.
func (l *language) Month(month string) string {
	t, err := time.Parse(goals.MonthLayout, month)
	if err != nil {
		return month
	}
	return l.months[t.Month()-1] + l.monthOf + t.Format("2006")
}

// percent is the progress of a goal.
func percent(saved, target goals.Money) int64 {
	return min(100, int64(saved)*100/max(1, int64(target)))
}

var functions = template.FuncMap{"percent": percent}
