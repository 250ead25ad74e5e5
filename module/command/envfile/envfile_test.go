package envfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	text := "\ufeff# keys\n\nA=one # first\nexport B=\"two # not a comment\" # second\r\nC='three\nlines \\'here\\'\nof it'\nD=\nE=a=b\n  F=g  \nG=\"back\\slash\\\"\"\n"
	want := []Variable{{"A", "one"}, {"B", "two # not a comment"}, {"C", "three\nlines 'here'\nof it"}, {"D", ""}, {"E", "a=b"}, {"F", "g"}, {"G", `back\slash"`}}
	if got, line, fault := parse(text); fault != "" || !slices.Equal(got, want) {
		t.Errorf("%q, %d: %s", got, line, fault)
	}
	for text, want := range map[string]string{"A=1\nsecret": "NAME=VALUE", "\n=secret": "is empty", "\nA B=secret": "spaces", "\nA= secret": "space before", "\nA=\"secret\nB=2": "no counterpart"} {
		if list, line, fault := parse(text); list != nil || line != 2 || !strings.Contains(fault, want) || strings.Contains(fault, "secret") {
			t.Errorf("%q: %v, %d: %s", text, list, line, fault)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Setenv("ENVFILE_SET", "before")
	t.Setenv("ENVFILE_NEW", "")
	_ = os.Unsetenv("ENVFILE_NEW")
	folder := t.TempDir()
	first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
	for name, text := range map[string]string{first: "ENVFILE_SET=after\nENVFILE_NEW=0\nENVFILE_NEW=1\n", second: "ENVFILE_NEW=2"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Load(first, second); err != nil || os.Getenv("ENVFILE_SET") != "before" || os.Getenv("ENVFILE_NEW") != "1" {
		t.Errorf("%v, %q, %q", err, os.Getenv("ENVFILE_SET"), os.Getenv("ENVFILE_NEW"))
	}
	if err := Load(filepath.Join(folder, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
}

// FuzzParse reads any texts.
func FuzzParse(f *testing.F) {
	f.Add("A='b\\'\n'#")
	f.Fuzz(func(t *testing.T, text string) {
		list, line, fault := parse(text)
		if (fault != "") != (line > 0) || line > strings.Count(text, "\n")+1 {
			t.Errorf("%d: %s", line, fault)
		}
		for _, v := range list {
			if v.Name == "" || strings.ContainsAny(v.Name, " =") {
				t.Errorf("%q", v)
			}
		}
	})
}
