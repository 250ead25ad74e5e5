package skillbridge_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of packages, files and types, without tests. What is larger holds more than one
// thing.
const (
	maxPackageLines = 3000 // a command line of 14 commands is one concern
	maxFileLines    = 450
	maxFields       = 20
	maxMethods      = 30
)

// namesWithoutNoun say nothing of what a package holds.
var namesWithoutNoun = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared"}

// ceilings bound the code of areas, which are folders of the second level with all below them, without blank lines, comments, tests and their kits:
// what they had on 30 November 2026, and at most 2 %. The whole product may have less than their sum. Raising one is a line in the commit that says what users
// get for it. The goal is 55,000 for the product, of it 4,800 for what keeps, follows, delivers and stores runs.
var ceilings = map[string]int{
	"translate/skillsharing":   11962,
	"translate/a2a":            5943,
	"translate/mcp":            3655,
	"translate/catalog":        3202,
	"module/command":           3170,
	"module/store":             2690,
	"module/cli":               2062,
	"module/observe":           2186,
	"translate/skillsprotocol": 1986,
	"module/credentials":       3062,
	"translate/ledger":         2304,
	"translate":                1886,
	"module/bridge":            1957,
	"module/fronts":            1457,
	"translate/jsonrpc":        1500,
	"translate/front":          1524,
	"module/browse":            1108,
	"module/consent":           542,
	"translate/polling":        1154,
	"translate/agentskills":    862,
	"module/cmd":               783,
	"cache":                    1070,
	"module/network":           1044,
	"module/sources":           857,
	"module/admin":             848,
	"translate/delivery":       787,
	"translate/run":            661,
	"translate/strictjson":     505,
	"module/keeping":           596,
	"translate/webhook":        434,
	"translate/panics":         34,
	"translate/quota":          413,
	"module/routes":            452,
	"translate/runtoken":       290,
	"module/runtokens":         343,
	"module/options":           462,
	"module/lifetime":          367,
	"translate/share":          348,
	"translate/keptcalls":      295,
	"module/callers":           648,
	"translate/inspection":     219,
	"module/usage":             167,
	"module/setup":             526,
	"module/probes":            93,
	"translate/callbacks":      168,
	"translate/access":         181,
	"translate/safetext":       112,
	"translate/publish":        2231,
	"module/publish":           1676,
}

// Ceilings of the product, and of the areas that keep, follow, deliver and store runs.
const (
	maxProduct = 70340
	maxKeeping = 6070
)

// areaOf returns the area of a folder; empty: tests, their kits and the benchmarks.
func areaOf(folder string) string {
	parts := strings.SplitN(folder, "/", 3)
	area := strings.Join(parts[:min(2, len(parts))], "/")
	if area == "module/testkit" || area == "module/attacks" || area == "module/faults" || strings.HasPrefix(folder, "module/cmd/bench") {
		return ""
	}
	return area
}

// measured is what the bounds are about in one folder.
type measured struct {
	name            string
	lines, code     int
	files           map[string]int // lines
	fields, methods map[string]int // by type
}

// TestLayout holds packages, files and types to their bounds.
func TestLayout(t *testing.T) {
	root := ".."
	packages := make(map[string]*measured)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		measure(t, packages, root, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 20 {
		t.Fatalf("only %d packages found", len(packages))
	}
	check := func(place string, got, most int, advice string) {
		if got > most {
			t.Errorf("%s: %d, at most %d: %s", place, got, most, advice)
		}
	}
	const advice = "prefer deleting: before adding a type that keeps, bounds, follows, retries or delivers, look whether it exists"
	code := make(map[string]int)
	for folder, m := range packages {
		if area := areaOf(folder); area != "" {
			code[area] += m.code
			code[""] += m.code
		}
	}
	check("code of the product", code[""], maxProduct, advice)
	check("code that keeps, follows, delivers and stores runs", code["module/store"]+code["translate/ledger"]+code["translate/keptcalls"]+code["translate/delivery"], maxKeeping, advice)
	for area, most := range ceilings {
		check("code of "+area, code[area], most, advice)
	}
	for folder, m := range packages {
		if slices.Contains(namesWithoutNoun, m.name) {
			t.Errorf("%s: package %s: name it after what it holds", folder, m.name)
		}
		check(folder+" lines", m.lines, maxPackageLines, "delete what earns nothing, or move one concern into a package of its own")
		for name, lines := range m.files {
			check(name+" lines", lines, maxFileLines, "move one type and its methods into a file named after it")
		}
		for name, n := range m.fields {
			check(folder+" "+name+" fields", n, maxFields, "group fields that are used together in a struct of their own")
		}
		for name, n := range m.methods {
			check(folder+" "+name+" methods", n, maxMethods, "move methods to the type whose fields they use, or make them functions")
		}
	}
}

// measure adds one file to what is measured of its folder.
func measure(t *testing.T, packages map[string]*measured, root, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.ToSlash(name)
	folder := strings.TrimSuffix(name, "/"+filepath.Base(path))
	m := packages[folder]
	if m == nil {
		m = &measured{name: file.Name.Name, files: make(map[string]int), fields: make(map[string]int), methods: make(map[string]int)}
		packages[folder] = m
	}
	m.code += linesOfCode(text)
	lines := bytes.Count(text, []byte("\n"))
	m.files[name] = lines
	m.lines += lines
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				m.methods[receiver(d.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					if structure, ok := s.Type.(*ast.StructType); ok {
						m.fields[s.Name.Name] = fieldsOf(structure)
					}
				}
			}
		}
	}
}

// linesOfCode counts the lines that are neither blank nor comments.
func linesOfCode(text []byte) int {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0) // without comments
	n, last := 0, 0
	for {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			return n
		}
		if kind == token.SEMICOLON && literal == "\n" { // it is not in the text
			continue
		}
		first := file.Line(position)
		end := first + strings.Count(literal, "\n")
		n += end - max(first-1, last)
		last = max(last, end)
	}
}

// receiver returns the name of a method's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// fieldsOf counts the fields of a struct; an embedded one is a field.
func fieldsOf(s *ast.StructType) int {
	n := 0
	for _, field := range s.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}
