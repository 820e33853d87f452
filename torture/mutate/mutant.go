package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change of one file: the text from at to end becomes other.
type mutant struct {
	file    string
	source  []byte
	line    int
	at, end int
	other   string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s becomes %s", m.file, m.line, m.source[m.at:m.end], m.other)
}

// apply returns the mutated file.
func (m *mutant) apply() []byte {
	return slices.Concat(m.source[:m.at], []byte(m.other), m.source[m.end:])
}

// operators are replaced by others that compile in the same place.
var operators = map[token.Token]string{
	token.EQL: "!=", token.NEQ: "==",
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+",
	token.INC: "--", token.DEC: "++",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
}

// mutantsOf returns all mutants of the package in a folder, without its tests.
func mutantsOf(folder string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(path, source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has nothing to change", folder)
	}
	return all, nil
}

// mutantsIn returns the mutants of one file.
func mutantsIn(path string, source []byte) (all []mutant, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	replace := func(from token.Pos, length int, other string) {
		at := files.Position(from)
		all = append(all, mutant{path, source, at.Line, at.Offset, at.Offset + length, other})
	}
	operator := func(from token.Pos, op token.Token) {
		if other, ok := operators[op]; ok {
			replace(from, len(op.String()), other)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			operator(n.OpPos, n.Op)
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
		case *ast.Ident:
			if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
				replace(n.Pos(), len(n.Name), other)
			}
		case *ast.ExprStmt: // a call whose result is not used
			text := source[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset]
			replace(n.Pos(), len(text), "{}")
		}
		return true
	})
	return all, nil
}
