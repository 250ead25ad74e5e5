package publish_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// secret stands in files that no document may show.
const secret = "s3cr3t-of-the-host"

// refers returns a document whose only operation has a parameter at a reference.
func refers(reference string) string {
	return operation(v30, "GET /a", fmt.Sprintf(`{parameters: [{$ref: %q}], `+ok+`}`, reference))
}

// hidden tests that nothing of an API, or of an error, shows the secret.
func hidden(t *testing.T, api *publish.API, err error) {
	t.Helper()
	shown := fmt.Sprint(err)
	if api != nil {
		shown += fmt.Sprint(api.Title, api.LeftOut)
		for _, s := range api.Skills {
			shown += string(s.Descriptor(base, "Pets")) + fmt.Sprintf("%+v", s)
		}
	}
	if strings.Contains(shown, secret) {
		t.Errorf("the secret is shown: %s", shown)
	}
}

// R205: references of a file lead to no file outside of its folder, in whichever spelling, and to no URL.
func TestR205ReferencesOutOfTheFolder(t *testing.T) {
	outside := files(t, map[string]string{"secret.yaml": "p: {name: " + secret + ", in: query, schema: {type: string}}", "api/openapi.yaml": ""})
	path := filepath.ToSlash(filepath.Join(outside, "secret.yaml"))
	for _, reference := range []string{
		"../secret.yaml#/p", "./../secret.yaml#/p", "a/../../secret.yaml#/p", "%2e%2e/secret.yaml#/p", "..%2fsecret.yaml#/p", `..\secret.yaml#/p`, "../api/../secret.yaml#/p", path + "#/p", "//" + path + "#/p", "/" + path + "#/p",
		"file://" + path + "#/p", "file:" + path + "#/p", "file:../secret.yaml#/p", "file://localhost" + path + "#/p", "FILE://" + path + "#/p", "https://example.com/secret.yaml#/p", "//example.com/secret.yaml#/p", "http:secret.yaml#/p",
		"/folder/../../secret.yaml#/p", "/folder/../secret.yaml#/p", "secret.yaml\x00#/p", "/etc/hostname", "/proc/self/environ", "data:,p", "",
	} {
		if err := os.WriteFile(filepath.Join(outside, "api/openapi.yaml"), []byte(refers(reference)), 0o600); err != nil {
			t.Fatal(err)
		}
		api, err := publish.Read(t.Context(), texts{"https://example.com/secret.yaml": "p: {name: " + secret + ", in: query}"}, fileURL(outside, "api/openapi.yaml"), all())
		hidden(t, api, err)
		if err == nil && reference != "" && (len(api.LeftOut) != 1 || len(api.Skills) > 0 || len(api.Files) != 1) {
			t.Errorf("%s: %+v", reference, api)
		}
	}
}

// R206: symbolic links in the folder lead to no file outside of it, and what is no regular file is not opened.
func TestR206LinksOutOfTheFolder(t *testing.T) {
	outside := files(t, map[string]string{"secret.yaml": "p: {name: " + secret + ", in: query, schema: {type: string}}", "api/openapi.yaml": "", "api/inside.yaml": "p: {name: q, in: query, schema: {type: string}}"})
	api := filepath.Join(outside, "api")
	for name, target := range map[string]string{"up.yaml": "../secret.yaml", "absolute.yaml": filepath.Join(outside, "secret.yaml"), "folder": "..", "twice.yaml": "up.yaml", "good.yaml": "inside.yaml", "zero.yaml": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(api, name)); err != nil {
			t.Skip(err)
		}
	}
	if err := exec.Command("mkfifo", filepath.Join(api, "fifo.yaml")).Run(); err != nil {
		t.Skip(err)
	}
	for reference, skills := range map[string]int{"up.yaml#/p": 0, "absolute.yaml#/p": 0, "folder/secret.yaml#/p": 0, "twice.yaml#/p": 0, "good.yaml#/p": 1, "zero.yaml": 0, "fifo.yaml": 0, ".": 0, "folder": 0} {
		if err := os.WriteFile(filepath.Join(api, "openapi.yaml"), []byte(refers(reference)), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := publish.Read(t.Context(), nil, fileURL(api, "openapi.yaml"), all())
		hidden(t, found, err)
		if err != nil || len(found.Skills) != skills {
			t.Errorf("%s: %+v %v", reference, found, err)
		}
	}
}

// R207: a document from a URL refers to no file, and to no other origin.
func TestR207OtherOrigins(t *testing.T) {
	location, _ := url.Parse("https://example.com/api/openapi.yaml")
	path := filepath.Join(files(t, map[string]string{"secret.yaml": "p: {name: " + secret + ", in: query}"}), "secret.yaml")
	for _, reference := range []string{
		"file://" + path + "#/p", "file:" + path + "#/p", "file:///etc/hostname", "http://example.com/p.yaml#/p", "https://example.com:8443/p.yaml#/p", "https://other.example.com/p.yaml#/p", "//other.example.com/p.yaml#/p",
		"https://user@example.com/p.yaml#/p", "https://example.com.evil.example/p.yaml#/p", "https://169.254.169.254/latest/meta-data", "ftp://example.com/p.yaml", "https:p.yaml", `https:\\other.example.com\p.yaml`, "https://example.com@other.example.com/p.yaml", "https://EXAMPLE.com./p.yaml",
	} {
		var asked atomic.Int32
		reader := readerFunc(func(_ context.Context, u *url.URL) ([]byte, error) {
			if u.String() == location.String() {
				return []byte(refers(reference)), nil
			}
			asked.Add(1)
			return []byte("p: {name: " + secret + ", in: query, schema: {type: string}}"), nil
		})
		api, err := publish.Read(t.Context(), reader, location, all())
		hidden(t, api, err)
		if err != nil || asked.Load() > 0 || len(api.Skills) > 0 || len(api.LeftOut) != 1 {
			t.Errorf("%s: %+v %v, %d asked", reference, api, err, asked.Load())
		}
	}
}

type readerFunc func(context.Context, *url.URL) ([]byte, error)

func (f readerFunc) Read(ctx context.Context, u *url.URL) ([]byte, error) { return f(ctx, u) }

// R208: errors name the reference, and quote nothing of what was read, whatever it is.
func TestR208ErrorsThatQuote(t *testing.T) {
	for _, content := range []string{
		secret, secret + ": [", "{\"" + secret + "\": ", "a: *" + secret, "? [" + secret + "]\n: b", "&a " + secret + ": *a\n*b : c", "%" + secret, "a: !!" + secret + " b", "\t" + secret, "\"\\q" + secret, "- " + secret + "\n: x", "a: \"" + secret, "{" + secret + "}", "[" + secret + "]", "\xff" + secret,
		"{name: " + secret + "}", "{in: query, name: {" + secret + ": 1}}", "{in: query, name: [], schema: {type: " + secret + "}}", "{$ref: {" + secret + ": 1}}",
	} {
		folder := files(t, map[string]string{"openapi.yaml": refers("other"), "other": content})
		api, err := publish.Read(t.Context(), nil, fileURL(folder, "openapi.yaml"), all())
		hidden(t, api, err)
		api, err = publish.Read(t.Context(), nil, fileURL(folder, "other"), all())
		hidden(t, api, err)
	}
}

// soon is how long what is bounded may take, with the race detector on a busy machine. What is not bounded takes far longer.
const soon = 3 * time.Minute

// R209: references that lead to themselves, to each other, or to much by many ways, end in an error or a schema, quickly.
func TestR209RecursiveReferences(t *testing.T) {
	var doubling, pointers, chain, allOf strings.Builder
	for i := range 100 {
		fmt.Fprintf(&doubling, "D%d: {type: object, properties: {a: {$ref: '#/components/schemas/D%d'}, b: {$ref: '#/components/schemas/D%d'}, c: {$ref: '#/components/schemas/D0'}}}, ", i, i+1, i+1)
		fmt.Fprintf(&pointers, "P%d: {$ref: '#/components/schemas/P%d/x'}, ", i+1, i)
		fmt.Fprintf(&chain, "C%d: {$ref: '#/components/schemas/C%d'}, ", i, i+1)
		fmt.Fprintf(&allOf, "A%d: {allOf: [{$ref: '#/components/schemas/A%d'}, {$ref: '#/components/schemas/A%d'}]}, ", i, i+1, i+1)
	}
	schemas := "components: {schemas: {" + doubling.String() + pointers.String() + chain.String() + allOf.String() +
		"D100: {type: string}, C100: {type: string}, A100: {type: object, properties: {a: {type: string}}}, P0: {x: {$ref: '#/components/schemas/P100'}}, " +
		"Self: {$ref: '#/components/schemas/Self'}, Loop: {allOf: [{$ref: '#/components/schemas/Loop'}]}, Any: {anyOf: [{$ref: '#/components/schemas/Any'}, {type: string}]}, Items: {type: array, items: {$ref: '#/components/schemas/Items'}}, Root: {$ref: '#'}}}"
	for _, name := range []string{"D0", "P100", "C0", "A0", "Self", "Loop", "Any", "Items", "Root"} {
		reference := "{$ref: '#/components/schemas/" + name + "'}"
		start := time.Now()
		api := translated(t, operation(v31, "POST /a", `{parameters: [{name: q, in: query, schema: `+reference+`}], requestBody: {content: {application/json: {schema: `+reference+`}}}, responses: {"200": {content: {application/json: {schema: `+reference+`}}}}}`, schemas), all())
		if took := time.Since(start); took > soon || len(api.Skills)+len(notPublished(api)) != 1 {
			t.Errorf("%s: %s %+v", name, took, api)
		}
	}
}

// R210: aliases of YAML stand for no more than the bounds allow, and in no circle.
func TestR210Aliases(t *testing.T) {
	laughs := "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	merges := "m0: &m0 {a: 1, b: 2}\n"
	for i := 1; i < 12; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
		merges += fmt.Sprintf("m%d: &m%d {<<: [%s], x%d: *m%d, y%d: *m%d}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 9), ", "), i, i-1, i, i-1)
	}
	for _, bomb := range []string{laughs, merges, "a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a {<<: *a}\n", "a: &a\n  - *a\n  - *a\n"} {
		start := time.Now()
		_, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a.yaml": operation(v30, "GET /a", "{"+ok+"}", bomb)}), "a.yaml"), all())
		if err == nil || time.Since(start) > soon {
			t.Errorf("%.40s: %v after %s", bomb, err, time.Since(start))
		}
	}
	longtest.Need(t, longtest.Long)
	for name, content := range map[string]string{"fan": "a: &a {" + many(1000, "k%d: 1") + "}\n" + "b: [" + many(999, "*a, %[1]d") + "]\n", "flat": "- &a x\n" + strings.Repeat("- *a\n", 1_000_001)} {
		if _, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a.yaml": content}), "a.yaml"), all()); err == nil {
			t.Error(name)
		}
	}
}

// R211: neither depth nor the number of values takes the stack or the memory.
func TestR211Depth(t *testing.T) {
	longtest.Need(t, longtest.Long)
	const n = 1 << 20
	for name, content := range map[string]string{
		"JSON":     `{"openapi": "3.0.0", "a": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}",
		"objects":  strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n),
		"flow":     "openapi: 3.0.0\na: " + strings.Repeat("[", n),
		"mappings": "openapi: 3.0.0\na: " + strings.Repeat("{a: ", n),
		"sequence": "openapi: 3.0.0\na:\n" + strings.Repeat("- ", n) + "a",
		"keys":     strings.Repeat("? ", n) + "a",
		"block":    strings.Repeat("a:\n", 3) + nested(2000),
		"values":   `[` + strings.Repeat("0,", 900_000) + "0]",
		"comments": "openapi: 3.0.0\n" + strings.Repeat("#\n", n),
		"quotes":   "openapi: \"" + strings.Repeat(`\u0041`, n),
		"tags":     "openapi: " + strings.Repeat("!a ", n),
		"anchors":  "openapi: " + strings.Repeat("&a ", n),
	} {
		start := time.Now()
		_, err := publish.Read(t.Context(), nil, fileURL(files(t, map[string]string{"a": content}), "a"), all())
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s: %v", name, took, err)
		}
	}
	deep := strings.Repeat("{type: array, items: ", 90) + "{type: string}" + strings.Repeat("}", 90)
	if reason := left(t, translated(t, operation(v30, "GET /a", `{parameters: [{name: q, in: query, schema: `+deep+`}], `+ok+`}`), all())); !strings.Contains(reason, "nested") {
		t.Error(reason)
	}
}

// nested returns a block mapping of n levels.
func nested(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

// R212: all documents together have 16 MiB, and there are at most 2,000.
func TestR212ManyDocuments(t *testing.T) {
	location, _ := url.Parse("https://example.com/0")
	read, size := 0, 0
	reader := readerFunc(func(_ context.Context, u *url.URL) ([]byte, error) {
		read++
		if u.Path == "/0" {
			return []byte(operation(v30, "GET /a", `{parameters: [`+many(5000, "{$ref: 'p%d'}")+`], `+ok+`}`)), nil
		}
		text := "name: " + strings.TrimPrefix(u.Path, "/") + "\nin: query\nschema: {type: string}\n# " + strings.Repeat("x", size)
		return []byte(text), nil
	})
	for _, size = range []int{0, 1 << 20} {
		read = 0
		api, err := publish.Read(t.Context(), reader, location, all())
		if err != nil || len(api.Skills) > 0 || read > 2000 || size > 0 && read > 18 {
			t.Errorf("%d were read: %+v %v", read, api.LeftOut, err)
		}
	}
}

// R213: what one document becomes is bounded, however often it uses one large schema, and ends with the time of the caller.
func TestR213Amplification(t *testing.T) {
	longtest.Need(t, longtest.Long)
	large := "components: {schemas: {L: {type: object, properties: {" + many(1000, "p%d: {type: string, title: t}") + "}}}}"
	paths := many(20_000, "/a%d: {get: {parameters: [{name: q, in: query, schema: {$ref: '#/components/schemas/L'}}], responses: {}}}")
	location := fileURL(files(t, map[string]string{"a.yaml": "openapi: 3.0.0\ninfo: {title: a}\npaths: {" + paths + "}\n" + large}), "a.yaml")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	start := time.Now()
	if _, err := publish.Read(ctx, nil, location, all()); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("after %s: %v", time.Since(start), err)
	}
	small := fileURL(files(t, map[string]string{"a.yaml": "openapi: 3.0.0\ninfo: {title: a}\npaths: {" + many(10_050, "/a%d: {get: {responses: {}}}") + "}"}), "a.yaml")
	api, err := publish.Read(t.Context(), nil, small, all())
	if err != nil || len(api.Skills) != 10_000 || len(api.LeftOut) != 50 {
		t.Errorf("%v", err)
	}
}

// R214: names and texts of a document lead nowhere else, and neither hide nor instruct terminals.
func TestR214Names(t *testing.T) {
	api := translated(t, `openapi: 3.0.3
info: {title: "A\e[31m\u202eB", version: "1/../../2"}
security: [{evil: []}]
servers: [{url: "https://evil.example/../..//x"}]
paths:
  /a/{..}: {get: {operationId: "../../etc/passwd", summary: "a\r\nX: y", responses: {}}}
  /b/{b}: {post: {operationId: "runs/{execution_id}", tags: ["\u200b", "a\u0000b"], responses: {}}}
  "/c\r\nX: y": {get: {responses: {}}}
  //evil.example/d: {get: {responses: {}}}
  /../../e: {get: {responses: {}}}
components: {securitySchemes: {evil: {type: apiKey, in: header, name: "X\r\nHost: evil", description: "\u202e"}}}
`, all())
	for _, s := range api.Skills {
		text := string(s.Descriptor(base, "Pets"))
		if strings.ContainsAny(s.ID, ".{}\r\n%?#") != strings.Contains(strings.TrimPrefix(s.ID, "example.com/"), ".") && strings.Count(s.ID, "/") != 1 {
			t.Errorf("the id %q", s.ID)
		}
		for _, bad := range []string{`\r`, `\n`, `\u0000`, "\u200b", "\u202e", "\x1b", `\u001b`} {
			if strings.Contains(text, bad) {
				t.Errorf("%q is in %s", bad, text)
			}
		}
		if !strings.HasPrefix(s.Operation.Path, "/") || strings.HasPrefix(s.Operation.Path, "//") || strings.ContainsAny(s.Operation.Path, "\r\n?# ") {
			t.Errorf("the path %q", s.Operation.Path)
		}
		if strings.Contains(fmt.Sprint(s.Operation.Credentials), "Host") {
			t.Errorf("%q", s.Operation.Credentials)
		}
	}
}

// S310: the inputs of one operation are bounded in number and in size before they are translated, so that one operation takes neither minutes nor the memory.
func TestS310OneLargeOperation(t *testing.T) {
	large := "components: {schemas: {L: {enum: ['" + strings.Repeat("x", 4<<20) + "']}, M: {type: object, properties: {" + many(12_000, "m%d: {type: string}") + "}}}}"
	start := time.Now()
	for name, text := range map[string]string{
		"parameters":   operation(v30, "GET /a", "{parameters: ["+many(40_000, "{name: p%d, in: query}")+"], responses: {}}"),
		"placeholders": `{"openapi": "3.0.0", "info": {"title": "a"}, "paths": {"/` + many(40_000, "{p%d}") + `": {"get": {"responses": {}}}}}`,
		"members":      operation(v30, "POST /a", "{requestBody: {content: {application/json: {schema: {properties: {"+many(40_000, "p%d: {type: string}")+"}}}}}, responses: {}}"),
		"texts":        operation(v30, "GET /a", "{parameters: ["+many(400, "{name: p%d, in: query, schema: {$ref: '#/components/schemas/L'}}")+"], responses: {}}", large),
		"schemas":      operation(v30, "GET /a", "{parameters: ["+many(400, "{name: p%d, in: query, schema: {$ref: '#/components/schemas/M'}}")+"], responses: {}}", large),
	} {
		if reason := left(t, translated(t, text, all())); !strings.Contains(reason, "at most 500 entries") && !strings.Contains(reason, "too many values") {
			t.Errorf("%s: %.200s", name, reason)
		}
	}
	if took := time.Since(start); took > soon {
		t.Errorf("it takes %s", took)
	}
}

// S338: the work for one schema grows with its size, although many parts of it have one name, or inherit many members from each other.
func TestS338SchemasOfManyParts(t *testing.T) {
	body := func(schema, components string) string {
		return operation(v30, "POST /a", "{requestBody: {content: {application/json: {schema: "+schema+"}}}, responses: {}}", "components: {schemas: {"+components+"}}")
	}
	members := "M: {type: object, required: [" + many(5000, "p%d") + "], properties: {" + many(5000, "p%d: {type: string}") + "}}"
	var chain strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&chain, "C%d: {allOf: [{$ref: '#/components/schemas/C%d'}]}, ", i, i+1)
	}
	for name, text := range map[string]string{
		"one name":  body("{type: array, items: {type: object, properties: {"+many(24_000, "p%d: {$ref: '#/components/schemas/g%[1]d/X'}")+"}}}", many(24_000, "g%d: {X: {type: string}}")),
		"one base":  body("{allOf: ["+many(20_000, "{$ref: '#/components/schemas/M', x: %d}")+"]}", members),
		"the chain": body("{$ref: '#/components/schemas/C0'}", chain.String()+"C20000: {type: object, properties: {"+many(20_000, "p%d: {type: string}")+"}}"),
	} {
		start := time.Now()
		if reason := left(t, translated(t, text, all())); !strings.Contains(reason, "must have at most") && !strings.Contains(reason, "too many values") {
			t.Errorf("%s: %.200s", name, reason)
		}
		if took := time.Since(start); took > 30*time.Second { // what grows with the square of the size takes minutes
			t.Errorf("%s takes %s", name, took)
		}
	}
}

// S340: the members of an object that stand beside other parameters set none of them, neither as a whole nor in part, past their schemas.
func TestS340MembersOfOtherParameters(t *testing.T) {
	text := operation(v30, "POST /a", `{parameters: [{name: free, in: query, schema: {type: object}}, {name: filter, in: query, style: deepObject, schema: {type: object, properties: {role: {enum: [user]}}}}],
		requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {more: {type: object}, own: {type: object, properties: {role: {enum: [user]}}}}},
		encoding: {more: {explode: true}, own: {style: deepObject}}}}}, `+ok+`}`, "components: {securitySchemes: {key: {type: apiKey, in: query, name: key}}}")
	skill, _ := only(t, translated(t, text, all()))
	for _, inputs := range []string{`{"free":{"filter":1}}`, `{"free":{"filter[role]":"admin"}}`, `{"free":{"filter[]":1}}`, `{"free":{"key[]":1}}`, `{"more":{"own[role]":"admin"}}`, `{"more":{"own":1}}`} {
		if r, failure := skill.Operation.Request(t.Context(), jsontext.Value(inputs), nil); failure == nil {
			t.Errorf("%s: %s", inputs, r.URL)
		}
	}
	if _, failure := skill.Operation.Request(t.Context(), jsontext.Value(`{"free":{"filters":1,"a[b]":2},"more":{"a":1}}`), nil); failure != nil {
		t.Error(failure)
	}
}

// S341: a request to the API is bounded, although each value of an array or object takes its name, and its part of a form, anew.
func TestS341LargeRequestsFromSmallOnes(t *testing.T) {
	form := func(mediaType, encoding string) string {
		return operation(v30, "POST /a", `{requestBody: {content: {`+mediaType+`: {schema: {type: object, properties: {x: {}}}, encoding: {x: {`+encoding+`}}}}}, `+ok+`}`)
	}
	in := func(in, name, style string) string {
		return operation(v30, "GET /a", `{parameters: [{name: `+name+`, in: `+in+`, style: `+style+`, schema: {}}], `+ok+`}`)
	}
	const n = 1 << 18
	array := "[" + strings.Repeat("1,", n) + "1]"
	name, long := strings.Repeat("n", 300<<10), strings.Repeat("y", 100)
	for what, c := range map[string]struct{ document, inputs string }{
		"names":            {in("query", "x", "deepObject"), `{"x":{"` + name + `":` + array + `}}`},
		"names of objects": {in("query", "x", "deepObject"), `{"x":[` + strings.Repeat(`{"`+name[:1000]+`":1},`, 2000) + array + `]}`},
		"a long name":      {in("query", long, "form"), `{"` + long + `":` + array + `}`},
		"cookies":          {in("cookie", long, "form"), `{"` + long + `":` + array + `}`},
		"a form":           {form("application/x-www-form-urlencoded", "style: deepObject"), `{"x":{"` + name + `":` + array + `}}`},
		"parts":            {form("multipart/form-data", ""), `{"x":` + array + `}`},
	} {
		skill, _ := only(t, translated(t, c.document, all()))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, failure := skill.Operation.Request(t.Context(), jsontext.Value(c.inputs), nil)
		runtime.ReadMemStats(&after)
		if failure == nil || !strings.Contains(failure.Message, "larger than 4 MiB") {
			t.Errorf("%s: %v", what, failure)
		}
		if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 200 {
			t.Errorf("%s takes %d MiB", what, taken)
		}
	}
	skill, _ := only(t, translated(t, form("multipart/form-data", ""), all()))
	if _, failure := skill.Operation.Request(t.Context(), jsontext.Value(`{"x":[`+strings.Repeat(`"tag",`, 10_000)+`"tag"]}`), nil); failure != nil {
		t.Error(failure)
	}
}

// S370: many values that become no field, such as nulls, do not each take a copy of the long name around them.
func TestS370NothingUnderALongName(t *testing.T) {
	skill, _ := only(t, translated(t, operation(v30, "GET /a", `{parameters: [{name: x, in: query, style: deepObject, schema: {}}], `+ok+`}`), all()))
	for _, nothing := range []string{"null,", "{},", "[],"} {
		inputs := `{"x":{"` + strings.Repeat("n", 300<<10) + `":[` + strings.Repeat(nothing, 20_000) + `1]}}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, failure := skill.Operation.Request(t.Context(), jsontext.Value(inputs), nil)
		runtime.ReadMemStats(&after)
		if failure != nil || !strings.HasSuffix(r.URL.RawQuery, "%5D%5B%5D=1") {
			t.Errorf("%s: %v", nothing, failure)
		}
		if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 50 {
			t.Errorf("%s takes %d MiB", nothing, taken)
		}
	}
}

// S352: many alternatives of security, and many schemes in one, take no time in each of many operations.
func TestS352ManyAlternatives(t *testing.T) {
	var alternatives, schemes, every, paths strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&alternatives, "{s%d: []},", i)
		fmt.Fprintf(&schemes, "s%d: {type: http, scheme: basic},", i)
		fmt.Fprintf(&every, "s%d: [],", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&paths, "  /a/%d: {get: {operationId: get%d, responses: {}}}\n", i, i)
	}
	for name, security := range map[string]string{"alternatives": alternatives.String(), "schemes": "{" + every.String() + "}"} {
		text := "openapi: 3.0.0\ninfo: {title: a, version: 1.0}\nsecurity: [" + security + "]\ncomponents: {securitySchemes: {" + schemes.String() + "}}\npaths:\n" + paths.String()
		start := time.Now()
		api := translated(t, text, all())
		if took := time.Since(start); took > 20*time.Second || len(api.LeftOut) != 2000 || api.LeftOut[0].Reason != "its security has more than 100 alternatives, or more than 100 schemes in one" {
			t.Errorf("%s: %s, %d left out: %.300v", name, took, len(api.LeftOut), api.LeftOut)
		}
	}
}

// issuers is a [publish.Reader] that counts.
type issuers struct {
	texts
	asked []string
}

func (r *issuers) Read(ctx context.Context, location *url.URL) ([]byte, error) {
	r.asked = append(r.asked, location.String())
	return r.texts.Read(ctx, location)
}

// S353: a document names issuers of other origins. They are asked over TLS, each once, ten at most; what they say is URLs, and no reference leads to it.
func TestS353Issuers(t *testing.T) {
	const good = `{"authorization_endpoint": "https://id.example.com/a", "token_endpoint": "https://id.example.com/t", "p": {"name": "stolen", "in": "query"}}`
	at := func(i int) string { return fmt.Sprintf("https://id%d.example.com/", i) }
	said := texts{at(0): good, at(1): `{"authorization_endpoint": "javascript:alert(1)", "token_endpoint": "https://id.example.com/t"}`, at(2): "{", at(3): "[]", at(4): strings.Repeat("[", 1000), "http://id.example.com/": good}
	security := func(location string) string {
		return "components: {securitySchemes: {id: {type: openIdConnect, openIdConnectUrl: \"" + location + "\"}}}\nsecurity: [{id: [read]}]"
	}
	auth := func(location, issuer string) string {
		api, err := publish.Read(t.Context(), said, mustURL(location), all())
		if err != nil || len(api.Skills) != 1 {
			t.Fatalf("%s: %+v %v", issuer, api, err)
		}
		d, _ := document.ParseDescriptor(api.Skills[0].Descriptor(base, "Pets"))
		return string(jsonvalue.Marshal(d.Auth.OAuth2))
	}
	const oauth2 = `{"authorization_url":"https://id.example.com/a","token_url":"https://id.example.com/t","scopes":{"read":""}}`
	for issuer, want := range map[string]string{at(0): oauth2, at(1): "null", at(2): "null", at(3): "null", at(4): "null", at(5): "null", "http://id.example.com/": "null", "file:///etc/passwd": "null", "": "null"} {
		for _, scheme := range []string{"https", "http"} {
			location := scheme + "://example.com/api.yaml"
			said[location] = operation(v31, "GET /a", `{`+ok+`}`, security(issuer))
			if strings.HasPrefix(issuer, scheme+":") && scheme == "http" {
				want = oauth2 // like the document
			}
			if got := auth(location, issuer); got != want {
				t.Errorf("%s of %s: %s", issuer, location, got)
			}
		}
	}
	var schemes, paths strings.Builder
	for i := range 30 {
		fmt.Fprintf(&schemes, "s%d: {type: openIdConnect, openIdConnectUrl: %q}, ", i, at(i))
		fmt.Fprintf(&paths, "  /a/%d: {get: {security: [{s%d: []}], responses: {}}, put: {security: [{s%d: []}], responses: {}}}\n", i, i, i)
	}
	r := &issuers{texts: said}
	folder := files(t, map[string]string{"openapi.yaml": "openapi: 3.0.0\ninfo: {title: a, version: 1.0}\ncomponents: {securitySchemes: {" + schemes.String() + "}}\npaths:\n" + paths.String() +
		"  /stolen: {get: {security: [{s0: []}], parameters: [{$ref: '" + at(0) + "#/p'}], responses: {}}}\n"})
	api, err := publish.Read(t.Context(), r, fileURL(folder, "openapi.yaml"), all())
	if err != nil || len(api.Skills) != 60 || len(api.LeftOut) != 1 || len(r.asked) != 10 || len(slices.Compact(slices.Sorted(slices.Values(r.asked)))) != 10 || !strings.Contains(api.LeftOut[0].Reason, "is no file in the folder") {
		t.Errorf("%q %v", r.asked, err)
	}
}

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// S395: a long value costs no more for each operation that is not published than its comparison with a word.
func TestS395LongPaths(t *testing.T) {
	options := all()
	options.Include = []string{"getUser"}
	api := translated(t, `openapi: 3.0.3
info: {title: Users, version: "1"}
paths:
  /users/{id}: {get: {operationId: getUser, responses: {}}}
`+strings.ReplaceAll(many(5000, "  /users/{id}/p%d: {get: {responses: {}}}"), ", ", "\n"), options)
	start := time.Now()
	if r, failure := api.Skills[0].Operation.Request(t.Context(), jsontext.Value(`{"id":"`+strings.Repeat("a", 1<<20)+`/x"}`), nil); failure != nil {
		t.Errorf("%v %v", r, failure)
	}
	if took := time.Since(start); took > soon/9 { // it would be minutes
		t.Errorf("it took %v", took)
	}
}

// S395: a value of the path does not lead to an operation that is not published: as a word of another path, in whichever case and with whichever extension, or with a slash.
func TestS395PathsOfOtherOperations(t *testing.T) {
	options := all()
	options.Include, options.Exclude = []string{"getUser", "getOf", "getFile"}, []string{"getNothing"}
	api := translated(t, `openapi: 3.0.3
info: {title: Users, version: "1"}
servers: [{url: "https://example.com/v1/{tenant}"}]
paths:
  /users/{id}: {get: {operationId: getUser, responses: {}}, delete: {responses: {}}}
  /users/{other}: {get: {responses: {}}}
  /users/me: {get: {responses: {}}}
  /users/a%20b: {get: {responses: {}}}
  "/users/[a]*": {get: {operationId: getNothing, responses: {}}}
  /users/{id}/photos: {get: {responses: {}}}
  /users/all: {delete: {responses: {}}}
  /{a}/{b}: {get: {responses: {}}}
  /orgs/{org}/{kind}: {get: {operationId: getOf, responses: {}}}
  /orgs/{org}/members: {get: {responses: {}}}
  /orgs/mine/{kind}: {get: {responses: {}}}
  /files/{name}: {get: {operationId: getFile, responses: {}}}
  "/files/{name}:run": {get: {responses: {}}}
`, options)
	operations := map[string]*publish.Operation{}
	for _, skill := range api.Skills {
		operations[skill.ID] = skill.Operation
	}
	send := func(id, inputs string, want bool) {
		t.Helper()
		r, failure := operations["example.com/"+id].Request(t.Context(), jsontext.Value(`{"tenant":"x/y",`+inputs+`}`), nil)
		if (failure == nil) != want {
			t.Errorf("%s: %v %v", inputs, r, failure)
		}
		if failure != nil && (failure.Kind != run.InvalidArguments || !strings.Contains(failure.Message, "that of an operation that is not published")) {
			t.Errorf("%s: %v", inputs, failure)
		}
	}
	for _, id := range []string{"me", "ME", "me/", "/me", "me.json", "a b", "[a]*", "1/photos", "1//Photos", `1\\photos`, "1/photos.xml"} {
		send("get-user", `"id":"`+id+`"`, false)
	}
	for _, id := range []string{"1", "men", "all", "me:1", "a", "1/2", "photos", "{id}", "me%2f"} {
		send("get-user", `"id":"`+id+`"`, true)
	}
	for inputs, want := range map[string]bool{`"org":"a","kind":"members"`: false, `"org":"mine","kind":"a"`: false, `"org":"members","kind":"a"`: true, `"org":"a","kind":"mine"`: true} {
		send("get-of", inputs, want)
	}
	for inputs, want := range map[string]bool{`"name":"a:run"`: false, `"name":"a"`: true, `"name":"run"`: true} {
		send("get-file", inputs, want)
	}
}

// S377: some documents tell operations of one path apart by a query or a fragment. The query is sent, and arguments do not leave their place in it.
func TestS377QueriesInPaths(t *testing.T) {
	server := newEcho(t)
	api := translated(t, `openapi: 3.0.3
info: {title: Files, version: "1"}
paths:
  /files/{id}: {put: {operationId: rename, responses: {}}}
  "/files/{id}#add_link": {put: {operationId: link, responses: {}}}
  "/files/{id}?beta=true&kind=a b": {put: {operationId: beta, parameters: [{name: q, in: query, schema: {type: string}}], responses: {}}}
  "/files/{id}?#{x}": {put: {responses: {}}}
`, all())
	got := map[string]string{}
	for _, skill := range api.Skills {
		inputs := `{"id":"7?beta=false#x"}`
		if skill.ID == "example.com/beta" {
			inputs = `{"id":"7?beta=false#x","q":"1&beta=false"}`
		}
		server.send(t, request(t, skill.Operation, inputs, nil))
		got[skill.ID] = server.got.RequestURI
	}
	if want := map[string]string{
		"example.com/rename": "/files/7%3Fbeta%3Dfalse%23x", "example.com/link": "/files/7%3Fbeta%3Dfalse%23x",
		"example.com/beta": "/files/7%3Fbeta%3Dfalse%23x?beta=true&kind=a+b&q=1%26beta%3Dfalse", "example.com/put-files-by-id-by-x": "/files/7%3Fbeta%3Dfalse%23x",
	}; !maps.Equal(got, want) {
		t.Errorf("%v, not %v; left out: %v", got, want, api.LeftOut)
	}
}

// S398: no argument sets what tells operations of one path apart by a query, so that none reaches an operation that is not published.
func TestS398QueriesOfOthers(t *testing.T) {
	server := newEcho(t)
	free := `{name: filter, in: query, schema: {type: object}}, {name: deep, in: query, style: deepObject, schema: {type: object}}, {name: action, in: query, schema: {type: string}}`
	options := all()
	options.Include = []string{"list", "plain", "search"}
	api := translated(t, `openapi: 3.0.3
info: {title: Items, version: "1"}
paths:
  /items: {get: {operationId: plain, parameters: [`+free+`], responses: {}}}
  "/items?action=list": {get: {operationId: list, parameters: [`+free+`], responses: {}}}
  "/items?action=delete": {get: {operationId: delete, responses: {}}}
  /search: {get: {operationId: search, parameters: [{name: action, in: query, required: true, schema: {type: string}}], responses: {}}}
`, options)
	if len(api.Skills) != 3 {
		t.Fatal(api.LeftOut)
	}
	for _, skill := range api.Skills {
		if skill.Operation.Path == "/search" { // another path, which has one operation
			if r := request(t, skill.Operation, `{"action":"delete"}`, nil); r.RequestURI != "/search?action=delete" {
				t.Error(r.RequestURI)
			}
			continue
		}
		for _, inputs := range []string{`{"action":"delete"}`, `{"filter":{"action":"delete"}}`, `{"filter":{"action[0]":"delete"}}`, `{"filter":{" action":"delete"}}`, `{"filter":{"action\u0000x":"delete"}}`} {
			if r, failure := skill.Operation.Request(t.Context(), jsontext.Value(inputs), nil); failure == nil {
				t.Errorf("%s %s: %s", skill.ID, inputs, r.RequestURI)
			}
		}
		server.send(t, request(t, skill.Operation, `{"filter":{"a":"action=delete"},"deep":{"action":"b"}}`, nil))
		want := strings.Trim(skill.Operation.Query+"&a=action%3Ddelete&deep%5Baction%5D=b", "&")
		if got := server.got.URL.RawQuery; got != want {
			t.Errorf("%s: %s", skill.ID, got)
		}
	}
}
