package skillsite_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

const page = "---\nname: pdf\ndescription: Reads PDF files.\n---\n# PDF\n"

var served = &url.URL{Scheme: "https", Host: "docs.example.com", Path: "/.well-known/agent-skills/index.json"}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// entry is an entry of an archive: its name, type and content.
type entry struct {
	name string
	kind byte
	text string
}

func tarOf(tb testing.TB, entries ...entry) string {
	tb.Helper()
	var b bytes.Buffer
	packed := gzip.NewWriter(&b)
	w := tar.NewWriter(packed)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644}
		switch e.kind {
		case tar.TypeReg:
			h.Size = int64(len(e.text))
		case tar.TypeXGlobalHeader:
			h = &tar.Header{Typeflag: e.kind, PAXRecords: map[string]string{"comment": e.text}}
		default:
			h.Linkname = e.text
		}
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := io.WriteString(w, e.text); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), packed.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func zipOf(tb testing.TB, entries ...entry) string {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.kind == tar.TypeSymlink {
			h.SetMode(0o777 | 1<<27) // fs.ModeSymlink
		}
		if e.kind == encrypted {
			h.Flags |= 1
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, e.text)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

// wrongSum returns a zip with another sum of its only file.
func wrongSum(tb testing.TB, text string) string {
	tb.Helper()
	const toSum = 16 // from the beginning of a header in the list of files
	at := strings.Index(text, "PK\x01\x02") + toSum
	return text[:at] + "\x00\x00\x00\x00" + text[at+4:]
}

// encrypted is the type of an entry of a zip that says that it is encrypted.
const encrypted = 'e'

func file(name, text string) entry { return entry{name, tar.TypeReg, text} }

func read(kind, text string) (*skillsite.Files, []byte, error) {
	return skillsite.Artifact{Type: kind, Digest: digestOf(text)}.Read([]byte(text), served)
}

// Both types of artifacts, and both forms of archives, give the same skill.
func TestRead(t *testing.T) {
	script := "#!/bin/sh\n"
	for about, a := range map[string]struct{ kind, text string }{
		"file":           {skillsite.TypeFile, page},
		"file with mark": {skillsite.TypeFile, "\ufeff" + page},
		"tar": {skillsite.TypeArchive, tarOf(t, entry{"", tar.TypeXGlobalHeader, "commit"}, entry{"./", tar.TypeDir, ""}, entry{"scripts/", tar.TypeDir, ""},
			file("./scripts/read.sh", script), file("SKILL.md", page), file("empty", ""))},
		"zip": {skillsite.TypeArchive, zipOf(t, entry{"scripts/", tar.TypeDir, ""}, file("scripts/read.sh", script), file("SKILL.md", page), file("empty", ""))},
	} {
		t.Run(about, func(t *testing.T) {
			text := strings.TrimPrefix(a.text, "\ufeff") // as the client does
			files, descriptor, err := skillsite.Artifact{Type: a.kind, Digest: digestOf(a.text)}.Read([]byte(text), served)
			if err != nil {
				t.Fatal(err)
			}
			if main, ok := files.Get("SKILL.md"); !ok || string(main) != page {
				t.Errorf("%q", main)
			}
			paths := []string{"SKILL.md"}
			if a.kind == skillsite.TypeArchive {
				paths = []string{"SKILL.md", "empty", "scripts/read.sh"}
				if read, _ := files.Get("scripts/read.sh"); string(read) != script {
					t.Errorf("%q", read)
				}
			}
			if !slices.Equal(files.Paths(), paths) {
				t.Errorf("%q", files.Paths())
			}
			d, err := document.ParseDescriptor(descriptor)
			if err != nil || d.ID != "pdf" || d.CapabilityType != document.Knowledge || d.Description != "Reads PDF files." || !strings.HasPrefix(d.Version, "0.0.0+sha256."+digestOf(a.text)[7:19]) {
				t.Errorf("%v %s", err, descriptor)
			}
		})
	}
}

// Lists of skills hold no other file than SKILL.md.
func TestBrief(t *testing.T) {
	files, _, err := read(skillsite.TypeArchive, tarOf(t, file("a", "x"), file("SKILL.md", page)))
	if err != nil {
		t.Fatal(err)
	}
	brief := files.Brief()
	main, _ := brief.Get("SKILL.md")
	if other, ok := brief.Get("a"); ok || string(main) != page || !slices.Equal(brief.Paths(), []string{"SKILL.md", "a"}) || brief.Size() != int64(len(page)) {
		t.Errorf("%q %q %q %d", main, other, brief.Paths(), brief.Size())
	}
	if other, ok := files.Get("a"); !ok || string(other) != "x" {
		t.Errorf("%q", other)
	}
}

// TestHiddenCharacters: people and models read the same text, and files that are no text stay as they are.
func TestHiddenCharacters(t *testing.T) {
	const hidden = "\u202e\u200b\x1b[8m\U000e0041\U000e0042\ufe0f\u2028"
	files, _, err := read(skillsite.TypeArchive, tarOf(t,
		file("SKILL.md", page+"Read"+hidden+" the\x00 👩\u200d🔬 file.\r\n\tSo."), file("more.md", "a"+hidden+"b"), file("data.bin", "a"+hidden+"\x00"), file("raw", hidden+"\xff")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"SKILL.md": page + "Read [8m  the  👩\u200d🔬 file.\r\n\tSo.", "more.md": "a [8m b", "data.bin": "a" + hidden + "\x00", "raw": hidden + "\xff",
	} {
		if text, _ := files.Get(path); string(text) != want {
			t.Errorf("%s: %q", path, text)
		}
	}
}

// Archives that could harm, and files without what a skill has, are refused with a failure that says why.
func TestRefused(t *testing.T) {
	many := []entry{file("SKILL.md", page)}
	for i := range 1000 {
		many = append(many, file(fmt.Sprintf("f%d", i), ""))
	}
	main := file("SKILL.md", page)
	zeros, heads := []entry{main}, []entry{main}
	for i := range 8 {
		zeros = append(zeros, file(fmt.Sprintf("f%d", i), strings.Repeat("\x00", 512<<10)))
		heads = append(heads, entry{"", tar.TypeXGlobalHeader, strings.Repeat("x", 1<<20-100)})
	}
	for about, a := range map[string]struct{ kind, text, want string }{
		"absolute":          {"archive", tarOf(t, main, file("/etc/passwd", "x")), "absolute"},
		"parent":            {"archive", tarOf(t, main, file("a/../../x", "x")), ".."},
		"parent in a zip":   {"archive", zipOf(t, main, file("../x", "x")), ".."},
		"backslash":         {"archive", zipOf(t, main, file(`..\x`, "x")), "backslash"},
		"drive":             {"archive", zipOf(t, main, file(`c:x`, "x")), "colon"},
		"empty segment":     {"archive", tarOf(t, main, file("a//x", "x")), "empty segments"},
		"symbolic link":     {"archive", tarOf(t, main, entry{"x", tar.TypeSymlink, "/etc/passwd"}), "link"},
		"hard link":         {"archive", tarOf(t, main, entry{"x", tar.TypeLink, "SKILL.md"}), "link"},
		"link in a zip":     {"archive", zipOf(t, main, entry{"x", tar.TypeSymlink, "/etc/passwd"}), "link"},
		"encrypted":         {"archive", zipOf(t, main, entry{"x", encrypted, "x"}), "is encrypted"},
		"device":            {"archive", tarOf(t, main, entry{"x", tar.TypeChar, ""}), "special"},
		"pipe":              {"archive", tarOf(t, main, entry{"x", tar.TypeFifo, ""}), "special"},
		"twice":             {"archive", tarOf(t, main, file("./SKILL.md", "x")), "twice"},
		"twice in a zip":    {"archive", zipOf(t, main, main), "twice"},
		"file as folder":    {"archive", tarOf(t, main, file("a", "x"), file("a/b", "x")), "folder"},
		"folder as file":    {"archive", tarOf(t, main, file("a/b", "x"), file("a", "x")), "folder"},
		"entries":           {"archive", tarOf(t, many...), "entries"},
		"entries of a zip":  {"archive", zipOf(t, many...), "entries"},
		"ratio":             {"archive", tarOf(t, main, file("x", strings.Repeat("\x00", 8<<20))), "MiB"},
		"ratio of a zip":    {"archive", zipOf(t, main, file("x", strings.Repeat("\x00", 8<<20))), "MiB"},
		"ratio of files":    {"archive", tarOf(t, zeros...), "MiB"},
		"files of a zip":    {"archive", zipOf(t, zeros...), "MiB"},
		"headers":           {"archive", tarOf(t, heads...), "MiB"},
		"sum of a zip":      {"archive", wrongSum(t, zipOf(t, main)), "can't be unpacked"},
		"long path":         {"archive", tarOf(t, main, file(strings.Repeat("a", 300), "x")), "256"},
		"deep path":         {"archive", tarOf(t, main, file(strings.Repeat("a/", 20)+"a", "x")), "folders"},
		"control character": {"archive", tarOf(t, main, file("a\x1b[2Jb", "x")), "not allowed"},
		"hidden character":  {"archive", tarOf(t, main, file("a\u202eb", "x")), "not allowed"},
		"no SKILL.md":       {"archive", tarOf(t, file("pdf/SKILL.md", page)), "root"},
		"cut":               {"archive", tarOf(t, main, file("x", strings.Repeat("abcdefg", 1000)))[:60], "tar"},
		"neither":           {"archive", "hello", "neither"},
		"large SKILL.md":    {"skill-md", page + strings.Repeat("# a\n", 1<<18), "more than 1 MiB"},
		"no front matter":   {"skill-md", "# PDF\n", "has no front matter: its first line must be ---"},
		"no description":    {"skill-md", "---\nname: pdf\n---\n", "description"},
		"no end":            {"skill-md", "---\nname: pdf\ndescription: x\n", "has front matter that does not end"},
		"other name":        {"skill-md", "---\nname: a/b\ndescription: x\n---\n", "name"},
		"not UTF-8":         {"skill-md", page + "\xff", "is not UTF-8"},
		"zip as a file":     {"skill-md", "PK\x03\x04\xff", "is an archive, for which the type is archive"},
	} {
		_, _, err := read(a.kind, a.text)
		failure, ok := errors.AsType[*run.Failure](err)
		if !ok || failure.Kind != run.InvalidDocument || !strings.Contains(failure.Message, a.want) || len(failure.Message) > 500 {
			t.Errorf("%s: %v", about, err)
		}
	}
	for _, kind := range []string{"skill-md", "archive"} {
		_, _, err := skillsite.Artifact{Type: kind, Digest: digestOf("other")}.Read([]byte(page), served)
		if failure, ok := errors.AsType[*run.Failure](err); !ok || !strings.Contains(failure.Message, "digests differ") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The forms of YAML that authors use.
func TestFrontMatter(t *testing.T) {
	for _, c := range []struct{ head, want string }{
		{"description: Reads PDF files.", "Reads PDF files."},
		{"description: Use when: a PDF is there # comment", "Use when: a PDF is there"},
		{`description: "Reads \"PDF\" files. # no comment" # comment`, `Reads "PDF" files. # no comment`},
		{"description: 'It''s a reader.'", "It's a reader."},
		{"description: Reads\n  PDF files.\nlicense: MIT", "Reads PDF files."},
		{"description: >-\n  Reads\n  PDF files.\n\n  Fast.", "Reads PDF files. Fast."},
		{"description: |\n  Reads\n  PDF files.", "Reads PDF files."},
		{"metadata:\n  description: no\n  name: no\ndescription: yes", "yes"},
		{"description: a\r\nlicense: b\r", "a"},
		{"description: hid\u202eden", "hidden"},
		{"description: " + strings.Repeat("ä", 2000), strings.Repeat("ä", 1023) + "…"},
	} {
		text := "---\nname: \"pdf\"\n" + c.head + "\n---\nbody"
		_, descriptor, err := read(skillsite.TypeFile, text)
		if err != nil {
			t.Errorf("%q: %v", c.head, err)
			continue
		}
		if d, err := document.ParseDescriptor(descriptor); err != nil || d.Description != c.want || d.ID != "pdf" {
			t.Errorf("%q: %q, %v", c.head, d.Description, err)
		}
		if body := skillsite.Body([]byte(text)); string(body) != "body" {
			t.Errorf("body %q", body)
		}
	}
}

func indexOf(entries ...string) string {
	return `{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[` + strings.Join(entries, ",") + `],"more":1}`
}

func entryOf(name, kind, target string) string {
	return fmt.Sprintf(`{"name":%q,"type":%q,"description":"D","url":%q,"digest":%q,"more":{}}`, name, kind, target, digestOf(name))
}

// Entries that can't be used are left out with a reason. The URLs are resolved by that of the index.
func TestReadIndex(t *testing.T) {
	index, err := skillsite.ReadIndex([]byte("\ufeff"+indexOf(
		entryOf("a", "skill-md", "a/SKILL.md"), entryOf("b", "archive", "/b.zip"), entryOf("c-1", "skill-md", "https://cdn.example.com/c?x=1#f"),
		entryOf("a", "archive", "a2"), entryOf("d", "plugin", "d"), entryOf("E", "skill-md", "e"), entryOf("-f", "skill-md", "f"), entryOf("g--h", "skill-md", "g"),
		entryOf("i", "skill-md", "ftp://x/i"), entryOf("j", "skill-md", "https://user@x/j"), `{"name":"k","type":"skill-md","description":"D","url":"k","digest":"sha256:ABC"}`,
		`{"name":"l","type":"skill-md","url":"l"}`, `null`, `{"name":"m","type":"skill-md","description":"`+strings.Repeat("x", 1025)+`","url":"m","digest":"`+digestOf("m")+`"}`,
		`{"name":1}`, entryOf("", "skill-md", "n"),
	)), served)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range index.Skills {
		got = append(got, e.ID+" "+strings.Replace(e.DescriptorURL, digestOf(e.ID), "DIGEST", 1))
		if a, _, ok := skillsite.ArtifactOf(e.DescriptorURL); !ok || a.Digest != digestOf(e.ID) || e.CapabilityType != document.Knowledge {
			t.Errorf("%+v", e)
		}
	}
	want := []string{
		"a https://docs.example.com/.well-known/agent-skills/a/SKILL.md#skill-md:DIGEST", "b https://docs.example.com/b.zip#archive:DIGEST",
		"c-1 https://cdn.example.com/c?x=1#skill-md:DIGEST",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if index.LeftOutCount != 13 || len(index.LeftOut) != 13 || index.LeftOut[0].Fault.Path != "/skills/3/name" || index.LeftOut[1].Fault.Path != "/skills/4/type" {
		t.Errorf("%d %+v", index.LeftOutCount, index.LeftOut)
	}
	for text, message := range map[string]string{
		`{"skills":[]}`:                          "0.1.0",
		`{"$schema":"https://x","skills":[]}`:    "0.2.0",
		`[]`:                                     "object",
		strings.Replace(indexOf(), "[]", "1", 1): "array",
		`{"$schema":1,"$schema":2}`:              "",
		`{`:                                      "",
	} {
		_, err := skillsite.ReadIndex([]byte(text), served)
		if failure, ok := errors.AsType[*run.Failure](err); !ok || failure.Kind != run.InvalidDocument || !strings.Contains(failure.Message, message) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := skillsite.ReadIndex([]byte(indexOf(slices.Repeat([]string{"0"}, 10_001)...)), served); err == nil || !strings.Contains(err.Error(), "must have at most 10000 entries") {
		t.Errorf("%v", err)
	}
}

// Front matter is JSON for hosts that compare it with YAML; what would not be equal, or could grow, is none.
func TestFrontMatterAsJSON(t *testing.T) {
	for yaml, want := range map[string]string{
		"name: a\ndescription: 'it''s'\nlicense: MIT":                                                 `{"description":"it's","license":"MIT","name":"a"}`,
		"name: a\nmetadata: {version: 1.10, n: 3, on: yes, at: 2026-01-02, none: ~, list: [x, true]}": `{"metadata":{"at":"2026-01-02","list":["x",true],"n":3,"none":null,"on":"yes","version":1.1},"name":"a"}`,
		"name: a\ndescription: Use when: x":                                                           "",
		"name: a\nname: b":                                                                            "",
		"a: &x [1]\nb: *x":                                                                            "",
		"a: &x {b: 1}\nc:\n  <<: *x":                                                                  "",
		"1: x\nname: a":                                                                               `{"1":"x","name":"a"}`,
		"- a":                                                                                         "",
		"x: .nan":                                                                                     "",
		strings.Repeat("[", 5000) + "\nname":                                                          "",
		"":                                                                                            "{}",
	} {
		if got := string(skillsite.FrontMatter([]byte("---\n" + yaml + "\n---\n# x\n"))); got != want {
			t.Errorf("%.100q: %s", yaml, got)
		}
	}
}

// FuzzRead: what is read of any artifact is within the bounds, and its descriptor is valid.
func FuzzRead(f *testing.F) {
	f.Add(false, []byte(page))
	f.Add(false, []byte("---\nname: \"a\\\ndescription: 'b\n---"))
	f.Add(true, []byte(tarOf(f, file("SKILL.md", page), file("a/b", "x"))))
	f.Add(true, []byte(zipOf(f, file("SKILL.md", page), file("a/b", "x"))))
	f.Fuzz(func(t *testing.T, archive bool, text []byte) {
		a := skillsite.Artifact{Type: skillsite.TypeFile, Digest: digestOf(string(text))}
		if archive {
			a.Type = skillsite.TypeArchive
		}
		files, descriptor, err := a.Read(text, served)
		if err != nil {
			if failure, ok := errors.AsType[*run.Failure](err); !ok || failure.Kind != run.InvalidDocument {
				t.Errorf("error %v", err)
			}
			return
		}
		if _, err := document.ParseDescriptor(descriptor); err != nil {
			t.Errorf("%v: %s", err, descriptor)
		}
		if files.Size() > 17<<20 || len(files.Paths()) > 1000 {
			t.Errorf("%d bytes, %d files", files.Size(), len(files.Paths()))
		}
		for _, path := range files.Paths() {
			if strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
				t.Errorf("path %q", path)
			}
		}
	})
}

// FuzzReadIndex: all that is read of an index can be used.
func FuzzReadIndex(f *testing.F) {
	f.Add([]byte(indexOf(entryOf("a", "skill-md", "a/SKILL.md"))))
	f.Fuzz(func(t *testing.T, text []byte) {
		index, err := skillsite.ReadIndex(text, served)
		if _, faults, _ := skillsite.Inspect(text, served.String()); err != nil && len(faults) == 0 {
			t.Error("an author is not told what is wrong")
		}
		skillsite.IsIndex(text, "")
		if err != nil {
			return
		}
		for _, e := range index.Skills {
			if _, _, ok := skillsite.ArtifactOf(e.DescriptorURL); !ok || len(e.ID) > 64 || !strings.HasPrefix(e.DescriptorURL, "http") {
				t.Errorf("%+v", e)
			}
		}
	})
}
