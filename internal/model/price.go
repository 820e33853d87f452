package model

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// Prices are the prices of the service at a date.
type Prices struct {
	Location
	Date            string       `yaml:"date,required" doc:"when the prices were looked up"`
	Source          string       `yaml:"source,required" doc:"where the prices were found"`
	Region          string       `yaml:"region" doc:"the region that the prices apply to"`
	Currency        string       `yaml:"currency" doc:"defaults to USD"`
	WriteRequests   float64      `yaml:"writeRequestUnits,required" doc:"on-demand: a million write request units"`
	ReadRequests    float64      `yaml:"readRequestUnits,required" doc:"on-demand: a million read request units"`
	WriteCapacity   float64      `yaml:"writeCapacityUnitHour,required" doc:"provisioned: one write unit for an hour"`
	ReadCapacity    float64      `yaml:"readCapacityUnitHour,required" doc:"provisioned: one read unit for an hour"`
	Storage         float64      `yaml:"storageGBMonth,required" doc:"a GB for a month"`
	Recovery        float64      `yaml:"recoveryGBMonth" doc:"point-in-time recovery: a GB for a month"`
	StreamReads     float64      `yaml:"streamReads" doc:"100,000 stream reads"`
	FreeStreamReads float64      `yaml:"freeStreamReads" doc:"stream reads per month that are free"`
	DAXNodes        []*NodePrice `yaml:"daxNodes,named" doc:"types of nodes of DAX, by name"`
}

// NodePrice is the price of a type of nodes of DAX.
type NodePrice struct {
	Location
	Name   string  `yaml:"-"`
	Hour   float64 `yaml:"hour,required" doc:"one node for an hour"`
	Memory float64 `yaml:"memoryGiB,required" doc:"memory of a node, in GiB"`
}

func (n *NodePrice) name() string { return n.Name }

// DAXNode returns the price of a type of nodes.
func (p *Prices) DAXNode(name string) (*NodePrice, bool) { return named(p.DAXNodes, name) }

// DAXNodeNames returns the types of nodes that have a price.
func (p *Prices) DAXNodeNames() []string { return names(p.DAXNodes) }

//go:embed prices-2026-11.yaml
var embedded []byte

// DefaultPrices returns the built-in prices.
func DefaultPrices() *Prices {
	p, err := ParsePrices("prices-2026-11.yaml", embedded)
	if err != nil {
		panic(fmt.Sprintf("parse the built-in prices: %v", err))
	}
	return p
}

// ParsePrices parses a price file.
func ParsePrices(file string, text []byte) (*Prices, error) {
	p := new(Prices)
	if faults := decode(text, p, "date", "price file"); len(faults) > 0 {
		return nil, &SyntaxError{File: file, Faults: faults}
	}
	return p, nil
}

// Figure formats a number for people: with separators, and no more digits than
// needed.
func Figure(n float64) string {
	digits := 0
	switch {
	case n == float64(int64(n)):
	case n >= 100:
	case n >= 10:
		digits = 1
	case n >= 1:
		digits = 2
	default:
		return strconv.FormatFloat(n, 'g', 3, 64)
	}
	text := strconv.FormatFloat(n, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', -1, 64) + " %" }

// Money formats an amount for people: with two decimals, or more for less than
// a cent.
func Money(n float64) string {
	if n > 0 && n < 0.01 {
		return strconv.FormatFloat(n, 'f', 6, 64)
	}
	text := strconv.FormatFloat(n, 'f', 2, 64)
	whole, cents, _ := strings.Cut(text, ".")
	f, _ := strconv.ParseFloat(whole, 64)
	return Figure(f) + "." + cents
}

func unitOf(rate string) string {
	_, unit, _ := strings.Cut(rate, "/")
	return strings.TrimSpace(unit)
}
